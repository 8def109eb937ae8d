"""ModEx, what an extended message says of itself before its packet type (Enhanced RTMP v2, ExVideoTagHeader).

size - 1 (8 bits; 255: size - 1 in 16 more)  data  type (4)  next packet type (4)
"""

from dataclasses import dataclass
from typing import Final

from ingest.rtmp.media.kinds import TIMESTAMP_OFFSET_NANO

MAX_NANOSECONDS: Final = 999_999
"""Less than the millisecond that RTMP's timestamps count."""

MAX_DATA_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True)
class ModEx:
    """One extension; types but 0 are reserved."""

    type: int
    data: bytes
    """1 to 65,536 bytes."""

    @property
    def nanoseconds(self) -> int | None:
        """What is to be added to the message's timestamp, if this says so in a way that is allowed."""
        if self.type != TIMESTAMP_OFFSET_NANO or len(self.data) < 3:
            return None
        value = int.from_bytes(self.data[:3], "big")
        return value if value <= MAX_NANOSECONDS else None


def timestamp_offset(nanoseconds: int) -> ModEx:
    return ModEx(TIMESTAMP_OFFSET_NANO, nanoseconds.to_bytes(3, "big"))


def read_mod_ex(payload: bytes, at: int) -> tuple[ModEx, int, int] | None:
    """The extension, the next packet type, and where that ends; None where the payload ends before."""
    if at >= len(payload):
        return None
    size = payload[at] + 1
    at += 1
    if size == 256:
        size = int.from_bytes(payload[at : at + 2], "big") + 1
        at += 2
    end = at + size
    if end >= len(payload):
        return None
    return ModEx(payload[end] >> 4, payload[at:end]), payload[end] & 15, end + 1


def write_mod_ex(extension: ModEx, next_packet_type: int) -> bytes:
    size = len(extension.data)
    if not 1 <= size <= MAX_DATA_BYTES:
        raise ValueError("the data of an extension have 1 to 65,536 bytes")
    length = bytes((size - 1,)) if size <= 255 else b"\xff" + (size - 1).to_bytes(2, "big")
    return length + extension.data + bytes((extension.type << 4 | next_packet_type,))
