"""FLV files as targets: read in pieces, looked through, gone on with."""

from collections.abc import Iterable
from io import BytesIO

from ingest.flv import FlvError, FlvIndex, FlvWriter, Tag, TagReader, read_index, scan
from ingest.flv.tags import tag_bytes
from tests.fuzz.cutting import pieces
from tests.fuzz.limits import LIMITS
from tests.ingest.flv.files import HEADER, KEY, VIDEO, shape
from tests.ingest.rtmp.held import held_bytes, reader_bytes


def read(given: Iterable[bytes]) -> tuple[list[Tag], int, bool, str]:
    reader = TagReader(LIMITS)
    found: list[Tag] = []
    error = ""
    try:
        for piece in given:
            found += reader.feed(piece)
            assert held_bytes(reader) <= reader_bytes(LIMITS)
    except FlvError as fault:
        error = str(fault)
    return found, reader.end, reader.is_cut, error


def is_in(index: FlvIndex, size: int) -> None:
    """Whatever is asked for lies in the file, and before the end of what can be read."""
    for time_ms in (0, 1, index.duration_ms // 2, index.duration_ms, 2**32):
        point = index.at_or_before(time_ms)
        if point is not None:
            assert 0 <= point.offset < size
            headers = index.headers_at(point.offset)
            assert headers == sorted(headers)
            assert all(0 <= offset < point.offset for offset in headers)


def flv(data: bytes) -> None:
    at_once = read([data])
    in_pieces = read(pieces(data))
    tags, end, _, error = at_once
    if error:
        # The tags of one `feed` before a fault are lost to who makes a list of them.
        assert in_pieces[3] == error
    else:
        assert in_pieces == at_once
    assert end <= len(data) or not tags
    written = HEADER + b"".join(tag_bytes(*each) for each in shape(tags))
    assert shape(list(TagReader(LIMITS).feed(written))) == shape(tags)
    try:
        index = scan(BytesIO(data), LIMITS)
    except FlvError:
        return
    if not error:
        assert index.end == end
    is_in(index, len(data))
    is_in(read_index(BytesIO(data), LIMITS), len(data))
    goes_on(data, index)


def goes_on(data: bytes, index: FlvIndex) -> None:
    """After a crash: what was whole stays, and what is added can be read."""
    stream = BytesIO(data)
    writer = FlvWriter.resume(stream, LIMITS)
    writer.write(VIDEO, writer.last_timestamp, KEY)
    writer.finish()
    again = scan(stream, LIMITS)
    assert not again.fault
    assert not again.is_cut
    assert again.end > index.end
