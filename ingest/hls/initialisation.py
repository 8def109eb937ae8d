"""What libav's muxers write, taken apart: the header of each track, of which an initialisation segment is put together,
and fragments (ISO/IEC 14496-12, 8.8)."""

from ingest.isobmff import HEADER_BYTES, box, boxes


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
            content += other[b"trak"] + box(b"mvex", whole[HEADER_BYTES:], other[b"mvex"][HEADER_BYTES:])
        else:
            content += whole
    return ftyp + box(b"moov", content)
