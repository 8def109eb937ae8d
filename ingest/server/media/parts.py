"""What a viewer is sent of a recording: all of its file or a range of it, the same as MP4, or FLV from a time on.

All here may wait for a disk, so it runs in the threads of `vod/library` only. What it raises: OSError; FlvError
where the file is none."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from ingest.byte_range import NoSuchRange, read_range
from ingest.flv import FlvError
from ingest.flv.tags import POINTER_BYTES, Tag, tag_bytes
from ingest.live.message import METADATA_AT
from ingest.rtmp.limits import Limits
from ingest.rtmp.messages import MessageType
from ingest.server.media.live_viewer import file_start
from ingest.server.vod.flv_source import RecordingInfo, tag_at
from ingest.server.vod.mp4 import Mp4File

READ_BYTES: Final = 128 * 1024


class Source(Protocol):
    def read(self, offset: int, most: int) -> bytes:
        """From there on, so many bytes at most."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class FlvFile:
    stream: BinaryIO

    def read(self, offset: int, most: int) -> bytes:
        return os.pread(self.stream.fileno(), most, offset)

    def close(self) -> None:
        self.stream.close()


@dataclass(slots=True)
class Part:
    source: Source
    offset: int
    end: int
    size: int
    """Of the whole file."""
    tag: str
    """Names this state of the file (an ETag)."""
    head: bytes = b""
    is_range: bool = False

    @property
    def length(self) -> int:
        return len(self.head) + self.end - self.offset

    def read(self) -> bytes:
        """The next piece, before the end."""
        data = self.source.read(self.offset, min(READ_BYTES, self.end - self.offset))
        if not data:
            raise OSError("The file has become shorter.")
        self.offset += len(data)
        return data


class NotChanged(Exception):  # noqa: N818 - an answer, not an error.
    """Whoever asks has it already."""

    def __init__(self, tag: str) -> None:
        super().__init__(tag)
        self.tag = tag


@dataclass(frozen=True, slots=True)
class Wanted:
    """The fields of a request; "" without one."""

    range: str = ""
    only_if: str = ""
    """If-Range."""
    unless: str = ""
    """If-None-Match."""


def open_whole(path: Path, wanted: Wanted) -> Part:
    """The file, or what is wanted of it. Raises NoSuchRange, OSError."""
    stream, size, tag = _open(path)
    return _narrowed(Part(FlvFile(stream), 0, size, size, tag), wanted)


def mp4_part(file: Mp4File, wanted: Wanted) -> Part:
    """The same of what is open already. Raises NoSuchRange, NotChanged; then it is closed."""
    if file.tag in (tag.strip().removeprefix("W/") for tag in wanted.unless.split(",")):
        file.close()
        raise NotChanged(file.tag)
    return _narrowed(Part(file, 0, file.size, file.size, file.tag), wanted)


def _narrowed(part: Part, wanted: Wanted) -> Part:
    if wanted.only_if not in ("", part.tag):
        return part
    try:
        found = read_range(wanted.range, part.size)
    except NoSuchRange:
        part.source.close()
        raise
    if found is not None:
        part.offset, part.end = found
        part.is_range = True
    return part


def open_from(path: Path, info: RecordingInfo, start_ms: int, limits: Limits) -> Part:
    """From the keyframe at or before the time: FLV's header, metadata, what decoders need first, then the file's tags
    with the file's times. Raises OSError, FlvError.
    """
    point = info.index.at_or_before(start_ms)
    if point is None:
        raise FlvError("there is nothing to play in it")
    stream, size, tag = _open(path)
    try:
        timestamp = _tag_at(stream, point.offset, limits).timestamp
        head = [
            file_start(audio=info.index.has_audio, video=info.index.has_video),
            tag_bytes(MessageType.DATA_AMF0, METADATA_AT, info.metadata),
        ]
        for offset in info.index.headers_at(point.offset):
            header = _tag_at(stream, offset, limits)
            head.append(tag_bytes(header.type_id, timestamp, header.payload))
    except BaseException:
        stream.close()
        raise
    end = size
    if info.index.is_truncated or info.index.fault:
        end = max(info.index.end + POINTER_BYTES, point.offset)
    return Part(FlvFile(stream), point.offset, end, size, tag, b"".join(head))


def _open(path: Path) -> tuple[BinaryIO, int, str]:
    """The file, its size and its ETag."""
    stream = path.open("rb", buffering=0)
    found = os.fstat(stream.fileno())
    return stream, found.st_size, f'"{found.st_mtime_ns:x}-{found.st_size:x}"'


def _tag_at(stream: BinaryIO, offset: int, limits: Limits) -> Tag:
    tag = tag_at(stream, offset, limits)
    if tag is None:
        raise FlvError("the file has become shorter")
    return tag
