"""Heads of MP4 files, kept in a folder of their own beside the recordings, which all who read these share.

A file there is a prefix and the head; it is named by the recording's path, and true as long as that has the size and
the time of change that the prefix says. What is over the bounds goes, the longest unused first. No asyncio and no
Django: nodes make and read them, and whoever deletes a recording deletes its head."""

import hashlib
import os
import struct
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

FOLDER: Final = ".mp4"
"""Within the folder of recordings, where no application's name begins so."""
SUFFIX: Final = ".head"
FORMAT: Final = 1
"""Raised whenever a head of the same file would be another."""

_prefix: Final = struct.Struct(">4sIQQQ")
"""Magic, format, the recording's size and time of change (ns), and how much of it belongs to the MP4."""
MAGIC: Final = b"RWMP"

MODE: Final = 0o640
USED_S: Final = 3600.0
"""A file's use is noted once in so long."""


class Version(NamedTuple):
    """Of a file, by what of it changes with each write."""

    size: int
    changed_ns: int


def version_of(stream: BinaryIO) -> Version:
    found = os.fstat(stream.fileno())
    return Version(found.st_size, found.st_mtime_ns)


@dataclass(frozen=True, slots=True)
class Head:
    stream: BinaryIO
    """Open; whoever got it closes it."""
    begins_at: int
    """Where in that the head stands, which goes to the end."""
    size: int
    media_bytes: int
    """Of the recording's beginning, which follow the head."""


@dataclass(frozen=True, slots=True)
class Heads:
    folder: Path
    """Of recordings."""
    most_bytes: int
    most_files: int

    def find(self, recording: Path, version: Version) -> Head | None:
        """None where there is none that can be read, or one of another version."""
        path = head_path(self.folder, recording)
        try:
            stream = path.open("rb", buffering=0)
        except OSError:
            return None
        head = read_head(stream, version)
        if head is None:
            stream.close()
        elif time.time() - os.fstat(stream.fileno()).st_atime > USED_S:
            with suppress(OSError):
                os.utime(path)
        return head

    def keep(self, recording: Path, version: Version, media_bytes: int, head: bytes) -> None:
        """Raises OSError where the folder can't be written."""
        path = head_path(self.folder, recording)
        path.parent.mkdir(exist_ok=True)
        descriptor, made = tempfile.mkstemp(SUFFIX, "part-", path.parent)
        try:
            with open(descriptor, "wb") as stream:
                os.fchmod(descriptor, MODE)
                write_head(stream, version, media_bytes, head)
                stream.flush()
                os.fsync(descriptor)
            os.replace(made, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(made)
            raise
        self._tidy(path)

    def _tidy(self, latest: Path) -> None:
        """Files that broke off go as well, when they are the oldest."""
        found: list[tuple[float, int, str]] = []
        with os.scandir(latest.parent) as entries:
            for entry in entries:
                with suppress(OSError):  # Another node was quicker.
                    status = entry.stat(follow_symlinks=False)
                    found.append((max(status.st_atime, status.st_mtime), status.st_size, entry.path))
        size, count = sum(each[1] for each in found), len(found)
        for _, bytes_, path in sorted(found):
            if (size <= self.most_bytes and count <= self.most_files) or path == str(latest):
                break
            with suppress(OSError):
                os.unlink(path)
            size, count = size - bytes_, count - 1


def head_path(folder: Path, recording: Path) -> Path:
    """Of the head of a recording, which is in the folder of recordings."""
    name = recording.relative_to(folder).as_posix() if recording.is_relative_to(folder) else str(recording)
    return folder / FOLDER / f"{hashlib.sha256(name.encode(errors='surrogateescape')).hexdigest()[:40]}{SUFFIX}"


def remove_head(folder: Path, recording: Path) -> None:
    """Of a recording that is deleted. What stays goes by its age."""
    with suppress(OSError):
        head_path(folder, recording).unlink(missing_ok=True)


def write_head(stream: BinaryIO, version: Version, media_bytes: int, head: bytes) -> None:
    stream.write(_prefix.pack(MAGIC, FORMAT, *version, media_bytes))
    stream.write(head)


def read_head(stream: BinaryIO, version: Version) -> Head | None:
    """None for what is of another version, or no head. Raises OSError."""
    prefix = os.pread(stream.fileno(), _prefix.size, 0)
    if len(prefix) < _prefix.size:
        return None
    magic, form, size, changed_ns, media_bytes = _prefix.unpack(prefix)
    if (magic, form, size, changed_ns) != (MAGIC, FORMAT, *version):
        return None
    return Head(stream, _prefix.size, os.fstat(stream.fileno()).st_size - _prefix.size, media_bytes)
