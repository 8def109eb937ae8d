"""One FLV file that is being recorded, as the thread that writes it sees it."""

import errno
import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final

from ingest.flv import FlvWriter
from ingest.rtmp.limits import DEFAULT_LIMITS, Limits
from ingest.server.share import Share

BUFFER_BYTES: Final = 256 * 1024
"""Gathers the tags of a batch for the kernel."""

MODE: Final = 0o640


class RecordingFile:
    """Every method may take as long as the disk does, and raises OSError.

    What was flushed plays at any moment, also after the death of the process: `FlvWriter` says how.
    """

    def __init__(self, path: Path, stream: BinaryIO, writer: FlvWriter) -> None:
        """Of a file that is open: `new` and `continuing` do that."""
        self.path = path
        self.writer = writer
        self._stream = stream

    @classmethod
    def new(cls, path: Path, metadata: Mapping[str, Any], limits: Limits = DEFAULT_LIMITS) -> "RecordingFile":
        """A file that is not there yet. Raises FileExistsError."""
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = _open(path, "xb+")
        try:
            return cls(path, stream, FlvWriter.begin(stream, metadata, limits))
        except BaseException:
            _close(stream)
            raise

    @classmethod
    def continuing(cls, path: Path, limits: Limits = DEFAULT_LIMITS) -> "RecordingFile":
        """A file that is there, behind its last whole tag: it is looked through first. Raises FlvError."""
        stream = _open(path, "rb+")
        try:
            return cls(path, stream, FlvWriter.resume(stream, limits, rest=Share()))
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


def mend(path: Path, limits: Limits = DEFAULT_LIMITS) -> RecordingFile:
    """Closes a file whose writer was stopped in the middle: cuts it behind its last whole tag, puts the index in.

    Needs no room on the disk. What comes back is closed, and says how long the file is. Raises OSError, FlvError.
    """
    file = RecordingFile.continuing(path, limits)
    file.finish()
    return file


@contextmanager
def held(path: Path) -> Iterator[None]:
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
