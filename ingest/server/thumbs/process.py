"""The decoder's process, and the thread that asks it for one picture after the other.

Nothing that the process does, or fails to do, costs more than the picture that it was asked for: a thread of its own
waits for it, for a bounded time, then kills it; the next request starts another. None is started before the first.
"""

import contextlib
import logging
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final, NamedTuple

from ingest.server.thumbs import decoder
from ingest.server.thumbs.request import Request
from ingest.server.thumbs.settings import ThumbnailSettings

logger = logging.getLogger(__name__)

PROGRAM: Final = (sys.executable, "-I", decoder.__file__)
MARGIN_S: Final = 1.0
"""After which the process ends itself, should nobody be left to do it."""
MOST_ANSWER_BYTES: Final = 256 * 1024
"""No picture of such a size is larger; what claims to be is no picture."""


class Answer(NamedTuple):
    image: bytes
    """b"": there is none."""
    reason: str = ""
    """Why."""
    took_s: float = 0.0


class LostError(Exception):
    """The process can't be started, has ended, or did not answer in time; its text says which."""


class Decoder:
    """One process at a time. Used by one thread, but for `kill`."""

    def __init__(self, settings: ThumbnailSettings, program: tuple[str, ...] = PROGRAM) -> None:
        self._settings = settings
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._asked = 0
        self._closed = False

    def ask(self, request: Request) -> Answer:
        """Raises LostError; whatever went wrong, the next call begins anew."""
        settings = self._settings
        if self._asked >= settings.pictures:
            self.end()
        connection = self._socket or self._start()
        self._asked += 1
        began = time.monotonic()
        try:
            head = decoder.REQUEST.pack(
                request.decoder.encode(),
                settings.width,
                settings.height,
                settings.side * settings.side,
                len(request.header),
                len(request.keyframe),
            )
            deadline = began + settings.picture_s
            connection.settimeout(settings.picture_s)
            connection.sendall(head + request.header + request.keyframe)
            is_picture, size = decoder.ANSWER.unpack(_read(connection, decoder.ANSWER.size, deadline))
            if size > MOST_ANSWER_BYTES:
                raise LostError(f"it answered with {size} bytes")
            answer = _read(connection, size, deadline)
        except TimeoutError as error:
            self.end()
            raise LostError(f"it took over {settings.picture_s:g} s") from error
        except OSError as error:
            raise LostError(self._ended()) from error
        except LostError:
            self.end()
            raise
        took_s = time.monotonic() - began
        return Answer(answer, "", took_s) if is_picture else Answer(b"", answer.decode(errors="replace"), took_s)

    def _start(self) -> socket.socket:
        settings = self._settings
        ours, theirs = socket.socketpair()
        limits = (str(settings.memory_bytes), str(settings.picture_s + MARGIN_S))
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [*self._program, *limits],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    env={},
                    start_new_session=True,
                )
            except OSError as error:
                ours.close()
                raise LostError(f"it can't be started: {error.strerror}") from error
        self._socket, self._asked = ours, 0
        if self._closed:  # While it started.
            self.kill()
        try:
            _read(ours, len(decoder.READY), time.monotonic() + settings.start_s)
        except TimeoutError as error:
            self.end()
            raise LostError(f"it did not start within {settings.start_s:g} s") from error
        except OSError as error:
            raise LostError(self._ended()) from error
        return ours

    def _ended(self) -> str:
        """How, in words. It has closed its end, so it ends now, unless it hangs there."""
        process = self._process
        if process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(self._settings.picture_s)
        self.end()
        code = process.returncode if process is not None else 0
        return f"it ended by signal {-code}" if code < 0 else f"it ended with {code}"

    def end(self) -> None:
        """The process is gone afterwards."""
        self.kill()
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            self._process.wait()
        self._socket = self._process = None

    def kill(self) -> None:
        process = self._process
        if process is not None:
            process.kill()

    def close(self) -> None:
        """From any thread: who waits for an answer has none at once, and whatever is started yet ends."""
        self._closed = True
        self.kill()


def _read(connection: socket.socket, size: int, deadline: float) -> bytes:
    """TimeoutError after the deadline, ConnectionError where the other end is closed."""
    data = bytearray()
    while len(data) < size:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        connection.settimeout(left_s)
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionError
        data += part
    return bytes(data)


class Job(NamedTuple):
    request: Request
    done: Callable[[Answer | LostError], None]
    """Called in the thread."""


class Painter:
    """Works through jobs at the pace of the settings, in one thread, which starts with the first one."""

    def __init__(self, settings: ThumbnailSettings, program: tuple[str, ...] = PROGRAM) -> None:
        self._settings = settings
        self._decoder = Decoder(settings, program)
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def submit(self, job: Job) -> None:
        self._jobs.put(job)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="rtmpweb-thumbnails", daemon=True)
            self._thread.start()

    def close(self, timeout_s: float) -> None:
        """Blocks until thread and process have ended, at most so long."""
        self._closing.set()
        self._jobs.put(None)
        self._decoder.close()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            while not self._closing.is_set():
                try:
                    job = self._jobs.get(timeout=self._settings.idle_s)
                except Empty:
                    self._decoder.end()
                    continue
                if job is not None:
                    self._closing.wait(self._work(job))
        finally:
            self._decoder.end()

    def _work(self, job: Job) -> float:
        """Returns how long to rest."""
        began = time.monotonic()
        answer: Answer | LostError
        try:
            answer = self._decoder.ask(job.request)
        except LostError as error:
            answer = error
        except Exception as error:
            logger.exception("The thumbnails' decoder can't be asked")
            answer = LostError(type(error).__name__)
        if not self._closing.is_set():
            job.done(answer)
        took_s = time.monotonic() - began
        return max(1 / self._settings.per_s, took_s / self._settings.share) - took_s
