"""The files of recordings: how they are named, written and locked, and closed properly after a crash.

A file is named by a path below the folder of recordings, made from names that peers may have chosen. It belongs to the
thread that writes it, and whoever has it open holds a lock on it. Long ones are scanned by threads that leave
most of the interpreter to the event loop (CpuShare). No asyncio and no Django: nodes, workers and the web use it."""

import errno
import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Final, Literal
from urllib.parse import quote

from ingest.flv import FlvError, FlvWriter
from ingest.rtmp.limits import DEFAULT_LIMITS, Limits

WORK_S: Final = 0.0005
"""Between two rests, about."""
RESTS: Final = 2
"""As many times as long as it has worked it rests."""


class CpuShare:
    """Called now and then by the thread, which sleeps in it when it is time to."""

    def __init__(self) -> None:
        self._worked = time.thread_time()

    def __call__(self) -> None:
        worked_s = time.thread_time() - self._worked
        if worked_s >= WORK_S:
            time.sleep(worked_s * RESTS)
            self._worked = time.thread_time()


SAFE: Final = "!()+,;=@"
"""Besides letters, digits and `_.-~`. All else is percent-encoded: what a name is stands in the database as well."""

MOST_BYTES: Final = 200
"""Of an encoded name. File systems take 255, and what tells one recording from another is still to come."""

MOST_OF_A_NAME: Final = 220
"""Characters of a stream's name that are kept in a recording's own; 255 with the time."""

SUFFIX: Final = ".flv"


def stamp(at: float) -> str:
    """A time, seconds since the epoch, as it stands in names: `20261122T022149Z`."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at))


def recording_name(name: str, at: float, number: int = 1) -> str:
    """What a recording of a stream that began at a time is called, where each has a name of its own.

    `number`: of those that began in the same second.
    """
    return f"{name[:MOST_OF_A_NAME]}-{stamp(at)}{f'-{number}' if number > 1 else ''}"


def recording_path(app: str, name: str, at: float, number: int = 1) -> PurePosixPath:
    """The path of such a recording, relative to the folder. None leads outside of it."""
    return PurePosixPath(_encoded(app), f"{recording_name(_encoded(name), at, number)}{SUFFIX}")


def _encoded(name: str) -> str:
    encoded = quote(name, safe=SAFE, errors="surrogatepass")
    if encoded.startswith("."):  # Neither hidden nor a folder above.
        encoded = f"%2E{encoded[1:]}"
    if len(encoded) > MOST_BYTES:
        digest = hashlib.sha256(encoded.encode()).hexdigest()[:32]
        encoded = f"{encoded[: MOST_BYTES - len(digest) - 1]}%{digest}"
    return encoded


State = Literal["started", "closed", "failed", "over"]

START: Final = "NetStream.Record.Start"
STOP: Final = "NetStream.Record.Stop"
FAILED: Final = "NetStream.Record.Failed"
NO_ACCESS: Final = "NetStream.Record.NoAccess"
DISK_FULL: Final = "NetStream.Record.DiskQuotaExceeded"

CODES: Final = {
    errno.ENOSPC: DISK_FULL,
    errno.EDQUOT: DISK_FULL,
    errno.EFBIG: DISK_FULL,
    errno.EACCES: NO_ACCESS,
    errno.EPERM: NO_ACCESS,
    errno.EROFS: NO_ACCESS,
}
"""By the system's error; for others it is FAILED."""


class RecordingError(Exception):
    """Recording can't go on: `code` for the publisher, and the text for the operator."""

    def __init__(self, code: str, description: str) -> None:
        super().__init__(description)
        self.code = code


def recording_error(error: OSError | FlvError | ValueError | RecordingError) -> RecordingError:
    """An error of the disk or of the file that is appended to, in words."""
    if isinstance(error, RecordingError):
        return error
    if isinstance(error, OSError):
        return RecordingError(CODES.get(error.errno or 0, FAILED), f"{error.strerror or error}.")
    return RecordingError(FAILED, f"{error}.")


@dataclass(frozen=True, slots=True)
class Report:
    """A file was begun or is closed; or recording failed: with a `file`, that one is closed as far as it could be.

    The last one, `over`, says that nothing more is written of the session.
    """

    state: State
    name: str = ""
    """Under which it is played."""
    file: str = ""
    """Its path, relative to the folder."""
    began: float = 0.0
    """Seconds since the epoch; of a file that is continued, 0."""
    is_continued: bool = False
    duration_ms: int = 0
    """Of the whole file."""
    size_bytes: int = 0
    dropped_frames: int = 0
    """Of the session so far, since the disk was behind."""
    code: str = ""
    description: str = ""


BUFFER_BYTES: Final = 256 * 1024
"""Gathers the tags of a batch for the kernel."""

MODE: Final = 0o640


@dataclass(eq=False, repr=False)
class RecordingFile:
    """Every method may take as long as the disk does, and raises OSError.

    What was flushed plays at any moment, also after the death of the process: `FlvWriter` says how.
    """

    path: Path
    _stream: BinaryIO
    writer: FlvWriter

    @classmethod
    def new(cls, path: Path, metadata: Mapping[str, Any], limits: Limits = DEFAULT_LIMITS) -> "RecordingFile":
        """A file that is not there yet. Raises FileExistsError."""
        path.parent.mkdir(parents=True, exist_ok=True)
        return cls._opened(path, "xb+", lambda stream: FlvWriter.begin(stream, metadata, limits))

    @classmethod
    def continuing(cls, path: Path, limits: Limits = DEFAULT_LIMITS) -> "RecordingFile":
        """A file that is there, behind its last whole tag: it is scanned first. Raises FlvError."""
        return cls._opened(path, "rb+", lambda stream: FlvWriter.resume(stream, limits, on_progress=CpuShare()))

    @classmethod
    def _opened(cls, path: Path, mode: str, begin: Callable[[BinaryIO], FlvWriter]) -> "RecordingFile":
        stream = _open(path, mode)
        try:
            return cls(path, stream, begin(stream))
        except BaseException:
            _close(stream)
            raise

    @property
    def duration_ms(self) -> int:
        return self.writer.duration_ms

    @property
    def size(self) -> int:
        """Bytes."""
        return self.writer.size

    def flush(self) -> None:
        """Hand all that was written to the kernel."""
        self._stream.flush()

    def sync(self) -> None:
        """Have the kernel bring it to the disk."""
        self._stream.flush()
        os.fsync(self._stream.fileno())

    def finish(self) -> None:
        """Put in what players seek by, and close it for good."""
        try:
            self.writer.finish()
            self.sync()
        finally:
            _close(self._stream)

    def abandon(self) -> None:
        """Close it as it is, after an error."""
        _close(self._stream)


def repair(path: Path, limits: Limits = DEFAULT_LIMITS) -> RecordingFile:
    """Closes a file whose writer was stopped in the middle: cuts it behind its last whole tag, puts the index in.

    Needs no room on the disk. What comes back is closed, and says how long the file is. Raises OSError, FlvError.
    """
    file = RecordingFile.continuing(path, limits)
    file.finish()
    return file


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Nobody writes the file meanwhile, or begins to. Raises BlockingIOError where somebody does, OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _open(path: Path, mode: str) -> BinaryIO:
    """A file, not a link that leads elsewhere, for one writer alone. Raises BlockingIOError where it has one."""
    return open(path, mode, BUFFER_BYTES, opener=_opener)  # type: ignore[return-value]


def _opener(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, MODE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(descriptor), os.lstat(path)):
            raise FileNotFoundError(errno.ENOENT, "Deleted while it was opened", path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _close(stream: BinaryIO) -> None:
    with suppress(OSError):  # It tries to write what is left once more, and is closed whatever comes of that.
        stream.close()
