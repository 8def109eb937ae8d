"""A recording as a thread reads it for a viewer: all of the file or a range of it, or FLV from a time on.

All here may wait for a disk, so it runs in the threads of `recorded/library.py` only. What it raises: OSError; FlvError
where the file is none.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ingest.flv import FlvError
from ingest.flv.tags import BEFORE_TAG_BYTES, POINTER_BYTES, read_tag_header, tag_bytes
from ingest.live.shared import METADATA_AT
from ingest.rtmp.limits import Limits
from ingest.rtmp.messages import MessageType
from ingest.server.media.viewer import file_start
from ingest.server.recorded.tape import Leaf

READ_BYTES: Final = 128 * 1024

_range: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
"""RFC 9110, section 14.2, with one range; several, and other units, are let go by: the whole file follows."""


@dataclass(slots=True)
class Part:
    """An open file, and what of it is to be sent."""

    descriptor: int
    offset: int
    end: int
    size: int
    """Of the whole file."""
    tag: str
    """Names this state of the file (an ETag)."""
    head: bytes = b""
    """What is sent before."""
    is_range: bool = False

    @property
    def length(self) -> int:
        return len(self.head) + self.end - self.offset

    def read(self) -> bytes:
        """The next piece; nothing at the end, also where the file has become shorter."""
        data = os.pread(self.descriptor, min(READ_BYTES, self.end - self.offset), self.offset)
        self.offset += len(data)
        return data

    def close(self) -> None:
        os.close(self.descriptor)


class NoSuchRange(Exception):  # noqa: N818 - an answer, not an error.
    """The file ends before it."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


def open_whole(path: Path, wanted: str, only_if: str) -> Part:
    """The file, or what the field Range asks for if If-Range (`only_if`) allows it. Raises NoSuchRange, OSError."""
    part = _open(path)
    found = _range.fullmatch(wanted.replace(" ", "")) if only_if in ("", part.tag) else None
    if found and (found[1] or found[2]):
        first = int(found[1]) if found[1] else max(part.size - int(found[2]), 0)
        last = int(found[2]) if found[1] and found[2] else part.size - 1
        if first >= part.size or last < first:
            part.close()
            raise NoSuchRange(part.size)
        part.offset, part.end, part.is_range = first, min(last + 1, part.size), True
    return part


def open_from(path: Path, leaf: Leaf, start_ms: int, limits: Limits) -> Part:
    """From the keyframe at or before the time: FLV's header, metadata, what decoders need first, then the file's tags
    with the file's times. Raises OSError, FlvError.
    """
    point = leaf.index.at_or_before(start_ms)
    if point is None:
        raise FlvError("there is nothing to play in it")
    part = _open(path)
    try:
        _, timestamp, _ = _tag_at(part, point.offset, limits)
        marks = leaf.index.marks
        head = [
            file_start(audio=marks.has_audio, video=marks.has_video),
            tag_bytes(MessageType.DATA_AMF0, METADATA_AT, leaf.metadata),
        ]
        for offset in leaf.index.headers_at(point.offset):
            type_id, _, payload = _tag_at(part, offset, limits)
            head.append(tag_bytes(type_id, timestamp, payload))
    except BaseException:
        part.close()
        raise
    part.head, part.offset = b"".join(head), point.offset
    if leaf.index.is_cut or leaf.index.fault:
        part.end = max(leaf.index.end + POINTER_BYTES, part.offset)
    return part


def _open(path: Path) -> Part:
    descriptor = os.open(path, os.O_RDONLY)
    found = os.fstat(descriptor)
    return Part(descriptor, 0, found.st_size, found.st_size, f'"{found.st_mtime_ns:x}-{found.st_size:x}"')


def _tag_at(part: Part, offset: int, limits: Limits) -> tuple[int, int, bytes]:
    """Type, timestamp and payload."""
    before = os.pread(part.descriptor, BEFORE_TAG_BYTES, offset - POINTER_BYTES)
    if len(before) < BEFORE_TAG_BYTES:
        raise FlvError("the file has become shorter")
    header = read_tag_header(before, 0, offset, limits)
    payload = os.pread(part.descriptor, header.size, offset - POINTER_BYTES + BEFORE_TAG_BYTES)
    if len(payload) < header.size:
        raise FlvError("the file has become shorter")
    return header.type_id, header.timestamp, payload
