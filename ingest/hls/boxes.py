"""Boxes of ISO base media files (ISO/IEC 14496-12, 4.2): size (32 bits), type (4 bytes), content. libav writes what is
in them; here they are only told apart, and two files' tracks are put into one header."""

from collections.abc import Iterator
from typing import Final

HEADER_BYTES: Final = 8


def boxes(data: bytes, at: int = 0) -> Iterator[tuple[bytes, bytes]]:
    """Type and whole box of each. ValueError where one does not end where the data do."""
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        if size < HEADER_BYTES or at + size > len(data):
            raise ValueError("a box is cut off")
        yield data[at + 4 : at + HEADER_BYTES], data[at : at + size]
        at += size


def box(kind: bytes, content: bytes) -> bytes:
    return (HEADER_BYTES + len(content)).to_bytes(4, "big") + kind + content


def without_header(data: bytes) -> tuple[bytes, bytes]:
    """What stands before the first fragment (ftyp and moov), and the fragments."""
    at = 0
    for kind, whole in boxes(data):
        if kind == b"moof":
            break
        at += len(whole)
    return data[:at], data[at:]


def joined_init(first: bytes, second: bytes) -> bytes:
    """One initialisation segment with the track of each. Their track ids differ already."""
    ftyp, moov = (dict(boxes(first))[kind] for kind in (b"ftyp", b"moov"))
    other = dict(boxes(dict(boxes(second))[b"moov"], HEADER_BYTES))
    content = b""
    for kind, whole in boxes(moov, HEADER_BYTES):
        if kind == b"mvex":
            content += other[b"trak"] + box(b"mvex", whole[HEADER_BYTES:] + other[b"mvex"][HEADER_BYTES:])
        else:
            content += whole
    return ftyp + box(b"moov", content)
