"""Boxes of ISO base media files (ISO/IEC 14496-12, 4.2): size (32 bits), type (4 bytes), content. A full box's content
begins with its version (8 bits) and flags (24 bits)."""

import struct
from collections.abc import Iterator
from typing import Final

HEADER_BYTES: Final = 8

_u32: Final = struct.Struct(">I")


def boxes(data: bytes, at: int = 0) -> Iterator[tuple[bytes, bytes]]:
    """Type and whole box of each. ValueError where one does not end where the data do."""
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        if size < HEADER_BYTES or at + size > len(data):
            raise ValueError("a box is cut off")
        yield data[at + 4 : at + HEADER_BYTES], data[at : at + size]
        at += size


def box(name: bytes, *parts: bytes) -> bytes:
    content = b"".join(parts)
    return _u32.pack(HEADER_BYTES + len(content)) + name + content


def full_box(name: bytes, version: int, flags: int, *parts: bytes) -> bytes:
    return box(name, _u32.pack(version << 24 | flags), *parts)


def nested(name: bytes, parts: list[bytes]) -> list[bytes]:
    """A box of large ones, whose bytes are joined once, at the end."""
    return [_u32.pack(HEADER_BYTES + sum(map(len, parts))) + name, *parts]
