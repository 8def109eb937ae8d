"""The tags of an FLV file (FLV 10.1, annex E.2 to E.4.1), from bytes as they come or from a stream.

    file    "FLV"  version (8)  flags (8; 4: audio, 1: video)  header's size (32)  [rest of the header]
            size of the tag before (32)  tag  ...  size of the last tag (32)
    tag     reserved (2 bits)  filter (1)  type (5)  payload's size (24)  timestamp (24)  its upper byte (8)
            stream id (24)  payload

Version, flags, reserved bits, stream ids and the sizes of tags before are not checked: writers have filled them in
their own ways, and nothing hangs on them. A tag's type and size are, as nothing could be found behind a wrong one.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final, NamedTuple

from ingest.rtmp.limits import DEFAULT_LIMITS, Limits
from ingest.rtmp.messages import MAX_U24, TAG_HEADER, MessageType

SIGNATURE: Final = b"FLV"
FILE_HEADER: Final = struct.Struct(">3sBBI")
HAS_AUDIO, HAS_VIDEO = 4, 1
FLAGS_OFFSET: Final = 4

POINTER_BYTES: Final = 4
"""The size of the tag before."""
TAG_HEADER_BYTES: Final = TAG_HEADER.size
BEFORE_TAG_BYTES: Final = POINTER_BYTES + TAG_HEADER_BYTES
"""The size of the tag before and a tag's header, which are read as one."""

FILTER: Final = 0x20 << 24
"""In the 32 bits of type and size."""
TYPE_BITS: Final = 0x1F
MEDIA_TYPES: Final = (MessageType.AUDIO, MessageType.VIDEO)
DATA_TYPES: Final = (MessageType.DATA_AMF0, MessageType.DATA_AMF3)
"""Tags have the type numbers of RTMP's messages."""

READ_BYTES: Final = 256 * 1024


class FlvError(Exception):
    """The file breaks the format: from there on it can't be read. The text names the place."""


@dataclass(frozen=True, slots=True)
class Tag:
    type_id: int
    """8 audio, 9 video, 18 data in AMF0, 15 data in AMF3."""
    timestamp: int
    """ms; all 32 bits."""
    payload: bytes
    offset: int
    is_encrypted: bool = False
    """The filter bit (annex F): nobody without the key can use the payload."""


class TagHeader(NamedTuple):
    type_id: int
    size: int
    """Bytes of payload."""
    timestamp: int
    offset: int
    is_encrypted: bool

    @property
    def end(self) -> int:
        """Where the tag ends and its size follows."""
        return self.offset + TAG_HEADER_BYTES + self.size


def read_file_header(data: bytes | bytearray) -> int:
    """Where the first size of a tag before stands. `data` has 9 bytes or more. Raises FlvError."""
    signature, _, _, size = FILE_HEADER.unpack_from(data)
    if signature != SIGNATURE or size < FILE_HEADER.size:
        raise FlvError("no FLV file: it does not begin with FLV's header")
    return int(size)


def read_tag_header(data: bytes | bytearray, at: int, offset: int, limits: Limits) -> TagHeader:
    """Of the 15 bytes from `at` on; the tag behind the 4 of them begins at `offset` in the file. Raises FlvError."""
    type_and_size, time_middle, time_low, time_high = TAG_HEADER.unpack_from(data, at + POINTER_BYTES)
    type_id = type_and_size >> 24 & TYPE_BITS
    size = type_and_size & MAX_U24
    if type_id in MEDIA_TYPES:
        most = limits.media_message_bytes
    elif type_id in DATA_TYPES:
        most = limits.data_message_bytes
    else:
        raise FlvError(f"no tag at byte {offset}: FLV has no type {type_id}")
    if size > most:
        raise FlvError(f"the tag at byte {offset} has {size} bytes, over the limit of {most}")
    timestamp = time_high << 24 | time_middle << 8 | time_low
    return TagHeader(type_id, size, timestamp, offset, bool(type_and_size & FILTER))


def tag_bytes(type_id: int, timestamp: int, payload: bytes) -> bytes:
    """A tag and its size behind it. ValueError for a payload over 16,777,215 bytes."""
    size = len(payload)
    if size > MAX_U24:
        raise ValueError(f"a tag's payload has at most {MAX_U24:,} bytes")
    header = TAG_HEADER.pack(type_id << 24 | size, timestamp >> 8 & 0xFFFF, timestamp & 0xFF, timestamp >> 24 & 0xFF)
    return b"".join((header, payload, tag_size(size)))


def tag_size(payload_bytes: int) -> bytes:
    """What stands behind a tag."""
    return (TAG_HEADER_BYTES + payload_bytes).to_bytes(POINTER_BYTES, "big")


class TagReader:
    """Bytes in, tags out. Holds at most one unfinished tag, whose size `Limits` bound."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS, *, at: int | None = None) -> None:
        """`at`: the bytes begin with the tag at that offset of a file; without it, with the file's header."""
        self._limits = limits
        self._rest = bytearray()
        self._skip = 0
        self._has_begun = at is not None
        self.end = 0 if at is None else at
        """Where in the file the latest whole tag ends."""
        if at is not None:  # As if the size of the tag before had come.
            self._rest += bytes(POINTER_BYTES)
            self.end -= POINTER_BYTES

    @property
    def is_truncated(self) -> bool:
        """What came so far ends in the middle: of a file, its writer was stopped there."""
        return not self._has_begun or self._skip > 0 or len(self._rest) != POINTER_BYTES

    def feed(self, data: bytes) -> Iterator[Tag]:
        """The tags that are complete now; to be iterated to its end. Raises FlvError, after the tags before it."""
        rest = self._rest
        rest += data
        if not self._has_begun:
            if len(rest) < FILE_HEADER.size:
                return
            self.end = self._skip = read_file_header(rest)
            self._has_begun = True
        if self._skip:
            skipped = min(self._skip, len(rest))
            del rest[:skipped]
            self._skip -= skipped
        position = 0
        try:
            while len(rest) - position >= BEFORE_TAG_BYTES:
                header = read_tag_header(rest, position, self.end + POINTER_BYTES, self._limits)
                start = position + BEFORE_TAG_BYTES
                stop = start + header.size
                if stop > len(rest):
                    break
                position = stop
                self.end = header.end
                payload = bytes(rest[start:stop])
                yield Tag(header.type_id, header.timestamp, payload, header.offset, header.is_encrypted)
        finally:
            del rest[:position]

    def read(self, stream: BinaryIO) -> Iterator[Tag]:
        """The tags of a stream to its end; then `is_truncated` tells how it ended. Raises FlvError."""
        while data := stream.read(READ_BYTES):
            yield from self.feed(data)
