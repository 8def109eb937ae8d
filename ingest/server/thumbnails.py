"""Thumbnails: a small picture of each live stream's last keyframe, made in a process of its own.

Once a second it is looked at whose picture is next. A thread asks the decoder's process (`thumbnail_decoder`) for one
picture after the other, with the codec's own data, taken out of the messages of a keyframe and its header.

Nothing that the process does, or fails to do, costs more than the picture that it was asked for: a thread of its own
waits for it, for a bounded time, then kills it; the next request starts another. None is started before the first.

A stream is due when it has had no picture for `watched_s`, or `unwatched_s` where nobody looks at it, and a keyframe
has come since. Of those that are due, the most overdue go first; so with more streams than the pace allows each has its
turn less often. It costs the event loop a look at each stream and a copy of some keyframes, each second."""

import asyncio
import contextlib
import logging
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any, Final, NamedTuple

from ingest.contracts import NodeThumbnail
from ingest.live import LiveStream, Publisher, Registry
from ingest.live.gop_cache import Keyframe
from ingest.log_records import Bound
from ingest.rtmp.codecs import video_config
from ingest.rtmp.media import ExtendedVideo, read_video
from ingest.rtmp.media_tags import VIDEO_CODECS, LegacyVideo, VideoPacket, codec_name
from ingest.server import thumbnail_decoder
from ingest.server.config import ThumbnailSettings
from ingest.thread_pool import ThreadPool

DECODERS: Final = {"H.264": "h264", "H.265": "hevc", "AV1": "libdav1d", "VP9": "vp9", "VP8": "vp8"}
"""{codec: FFmpeg's name of a decoder in software}. There is no picture of others."""
IN_BAND: Final = frozenset({"AV1", "VP9", "VP8"})
"""Codecs whose keyframes can be decoded without a header."""


class Request(NamedTuple):
    decoder: str
    header: bytes
    keyframe: bytes


class _Part(NamedTuple):
    codec: str
    track: int
    body: bytes
    message: LegacyVideo | ExtendedVideo


def request_of(found: Keyframe, side: int) -> Request | None:
    """None for what can't be decoded, or is larger than `side` pixels across or down as far as its header says so."""
    keyframe = _part(found.payload)
    if keyframe is None or keyframe.codec not in DECODERS or not keyframe.body:
        return None
    header = _header(found.headers, keyframe)
    if header is None and keyframe.codec not in IN_BAND:
        return None
    for part in (header, keyframe):
        config = video_config(part.message) if part else None
        if config and max(config.width or 0, config.height or 0) > side:
            return None
    return Request(DECODERS[keyframe.codec], header.body if header else b"", keyframe.body)


def _header(payloads: Iterable[bytes], keyframe: _Part) -> _Part | None:
    for payload in payloads:
        part = _part(payload, keyframe.track)
        if part and part.codec == keyframe.codec and _is_record(part.message):
            return part
    return None


def _is_record(message: LegacyVideo | ExtendedVideo) -> bool:
    if isinstance(message, ExtendedVideo) and message.packet_type != VideoPacket.SEQUENCE_START:
        return False  # That of an MPEG-2 transport stream has another form.
    return message.is_sequence_start


def _part(payload: bytes, track: int | None = None) -> _Part | None:
    """The part of that track, or of the lowest one."""
    message = read_video(payload)
    if message is None or message.fault:
        return None
    if isinstance(message, LegacyVideo):
        return _Part(VIDEO_CODECS.get(message.codec, ""), 0, message.body, message) if not track else None
    parts = [each for each in message.tracks if track is None or each.track_id == track]
    if not parts:
        return None
    lowest = min(parts, key=lambda each: each.track_id)
    return _Part(codec_name(lowest.fourcc), lowest.track_id, lowest.body, message)


logger = logging.getLogger(__name__)

PROGRAM: Final = (sys.executable, "-I", thumbnail_decoder.__file__)
MARGIN_S: Final = 1.0
"""After which the process ends itself, should nobody be left to do it."""
MOST_ANSWER_BYTES: Final = 256 * 1024
"""No picture of such a size is larger; what claims to be is no picture."""


class Answer(NamedTuple):
    image: bytes
    reason: str = ""
    took_s: float = 0.0


class LostError(Exception):
    """The process can't be started, has ended, or did not answer in time; its text says which."""


@dataclass(eq=False, repr=False)
class Decoder:
    """One process at a time. Used by one thread, but for `kill`."""

    _settings: ThumbnailSettings
    program: tuple[str, ...] = PROGRAM
    _process: subprocess.Popen[bytes] | None = None
    _socket: socket.socket | None = None
    _asked: int = 0
    _closed: bool = False

    def ask(self, request: Request) -> Answer:
        """Raises LostError; whatever went wrong, the next call begins anew."""
        settings = self._settings
        if self._asked >= settings.pictures:
            self.end()
        connection = self._socket or self._start()
        self._asked += 1
        began = time.monotonic()
        with self._losing(f"it took over {settings.picture_s:g} s"):
            head = thumbnail_decoder.REQUEST.pack(
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
            is_picture, size = thumbnail_decoder.ANSWER.unpack(
                _read(connection, thumbnail_decoder.ANSWER.size, deadline)
            )
            if size > MOST_ANSWER_BYTES:
                raise LostError(f"it answered with {size} bytes")
            answer = _read(connection, size, deadline)
        took_s = time.monotonic() - began
        return Answer(answer, "", took_s) if is_picture else Answer(b"", answer.decode(errors="replace"), took_s)

    def _start(self) -> socket.socket:
        settings = self._settings
        ours, theirs = socket.socketpair()
        limits = (str(settings.memory_bytes), str(settings.picture_s + MARGIN_S))
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [*self.program, *limits],
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
        with self._losing(f"it did not start within {settings.start_s:g} s"):
            _read(ours, len(thumbnail_decoder.READY), time.monotonic() + settings.start_s)
        return ours

    @contextlib.contextmanager
    def _losing(self, late: str) -> Iterator[None]:
        """Who doesn't answer as it should is ended. `late`: what is said of one that doesn't in time."""
        try:
            yield
        except OSError as error:
            text = late if isinstance(error, TimeoutError) else self._ended()
            self.end()
            raise LostError(text) from error
        except LostError:
            self.end()
            raise

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


WARN_S = 60.0
"""Between two lines of the log on processes that were lost."""


@dataclass(slots=True)
class _Turn:
    session: str = ""
    at: float = -inf
    keyframe: float = -inf
    failures: int = 0
    """One after the other; a new session is tried at once, but they count on."""
    is_waiting: bool = False


class Thumbnails:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        registry: Registry,
        settings: ThumbnailSettings,
        put: Callable[[Any], object],
        program: tuple[str, ...] = PROGRAM,
    ) -> None:
        self._loop = loop
        self._registry = registry
        self._settings = settings
        self._put = put
        self._decoder = Decoder(settings, program)
        self._thread = ThreadPool(1, "thumbnails")
        self._requests: asyncio.Queue[tuple[int, NodeThumbnail, Request]] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._turns: dict[str, _Turn] = {}
        self._watched: frozenset[str] = frozenset()
        self._waiting: dict[int, int] = {}
        """Bytes of each keyframe that waits for the decoder, by its number."""
        self._asked = 0
        self._warnings = Bound(1, WARN_S)

    def watch(self, paths: Collection[str]) -> None:
        """From now on somebody looks at these, and at no others."""
        self._watched = frozenset(paths)

    def tick(self, now: float) -> None:
        """Once a second: asks for the pictures of those that are most overdue, until enough wait."""
        settings, streams = self._settings, self._registry.streams
        if len(self._turns) > 2 * len(streams) + 100:
            self._turns = {path: turn for path, turn in self._turns.items() if path in streams}
        due = [(overdue, stream) for stream in streams.values() if (overdue := self._due(stream, now)) >= 1]
        for _, stream in sorted(due, key=lambda each: -each[0]):
            if len(self._waiting) >= settings.per_s or sum(self._waiting.values()) >= settings.waiting_bytes:
                return
            self._ask(stream, stream.publisher, now)

    def _due(self, stream: LiveStream, now: float) -> float:
        """How much of its interval is over: from 1 on it is due."""
        if stream.publisher is None or stream.is_relayed:
            return 0.0
        turn = self._turns.get(stream.path)
        if turn is None or turn.session != stream.publisher.session_id:
            return inf
        if turn.is_waiting:
            return 0.0
        settings = self._settings
        interval_s = settings.watched_s if stream.path in self._watched else settings.unwatched_s
        if turn.failures:
            interval_s = min(max(interval_s, settings.unwatched_s) * 2.0 ** min(turn.failures, 16), settings.again_s)
        return (now - turn.at) / interval_s

    def _ask(self, stream: LiveStream, publisher: Publisher | None, now: float) -> None:
        """Has the decoder look at the stream's keyframe, if another has come and may be decoded."""
        turn = self._turns.setdefault(stream.path, _Turn())
        if publisher is not None and turn.session != publisher.session_id:
            turn.session, turn.is_waiting = publisher.session_id, False
            turn.at = turn.keyframe = -inf
        found = stream.cache.keyframe(turn.keyframe, self._settings.keyframe_bytes)
        if found is None:
            return
        turn.at, turn.keyframe = now, found.arrived
        request = request_of(found, self._settings.side)
        if request is None:
            return
        self._asked += 1
        number = self._asked
        turn.is_waiting = True
        self._waiting[number] = len(request.header) + len(request.keyframe)
        picture: NodeThumbnail = {
            "type": "node.thumbnail",
            "path": stream.path,
            "session_id": turn.session,
            "at_ms": time.time_ns() // 1_000_000,
            "image": b"",
        }
        self._requests.put_nowait((number, picture, request))
        if self._task is None:
            self._task = self._loop.create_task(self._run())

    async def _run(self) -> None:
        """One picture after the other, at the pace of the settings."""
        settings = self._settings
        while True:
            try:
                async with asyncio.timeout(settings.idle_s):
                    number, picture, request = await self._requests.get()
            except TimeoutError:
                await self._thread.run(self._decoder.end, self._loop)
                continue
            began = self._loop.time()
            try:
                answer: Answer | LostError = await self._thread.run(partial(self._decoder.ask, request), self._loop)
            except LostError as error:
                answer = error
            except Exception as error:
                logger.exception("The thumbnails' decoder can't be asked")
                answer = LostError(type(error).__name__)
            try:
                self._done(number, picture, answer)
            except Exception:  # Our own fault: the next picture is made all the same.
                logger.exception("A thumbnail could not be handed over")
            took_s = self._loop.time() - began
            await asyncio.sleep(max(1 / settings.per_s, took_s / settings.share) - took_s)

    def _done(self, number: int, picture: NodeThumbnail, answer: Answer | LostError) -> None:
        del self._waiting[number]
        turn = self._turns.get(picture["path"])
        if turn is None or turn.session != picture["session_id"]:
            return
        turn.is_waiting = False
        if isinstance(answer, Answer) and answer.image:
            turn.failures = 0
            self._put(picture | {"image": answer.image})
            return
        turn.failures += 1
        if isinstance(answer, LostError):
            self._warn(picture["path"], answer)
        else:
            logger.debug("No thumbnail of %s: %s", picture["path"], answer.reason)

    def _warn(self, path: str, error: LostError) -> None:
        if self._warnings.take() is not None:
            logger.warning(
                "The thumbnails' decoder was lost over a keyframe of %s: %s. It starts again with the next picture; "
                "media are not concerned. RTMPWEB_THUMBNAILS_S=0 does without thumbnails.",
                path,
                error,
            )

    async def close(self, timeout_s: float) -> None:
        """Returns when the process has ended, or after so long."""
        if self._task is not None:
            self._task.cancel()
            self._decoder.close()
            await asyncio.wait([self._thread.run(self._decoder.end, self._loop)], timeout=timeout_s)
            self._thread.close()
