"""A file that grows is looked at where it has grown, and by a thread that rests meanwhile."""

from io import BytesIO

from ingest.flv import FlvIndex, read_index
from tests.ingest.flv.files import AAC_HEADER, AVC_HEADER, HEADER, KEY, VIDEO, media, tag


class Counting(BytesIO):
    reads = 0

    def read(self, size: int | None = -1, /) -> bytes:
        self.reads += 1
        return super().read(size)


def written(*tags: tuple[int, int, bytes], cut: int = 0) -> Counting:
    data = HEADER + b"".join(tag(*item) for item in tags)
    return Counting(data[: len(data) - cut])


def facts(index: FlvIndex) -> tuple[object, ...]:
    marks = index.marks
    return marks.points, marks.headers, index.duration_ms, index.end, index.last, index.is_cut, index.fault


def test_what_was_added_is_enough() -> None:
    known = read_index(written(*media(20), cut=5))
    before = facts(known)
    longer = written(*media(30))
    grown = read_index(longer, known=known)
    assert facts(grown) == facts(read_index(written(*media(30))))
    assert longer.reads < 1.1 * len(media(10)), "one for each tag that was added, and a few"
    assert facts(known) == before, "others read it meanwhile"


def test_headers_that_were_added() -> None:
    other = AVC_HEADER + b"other"
    tags = [*media(2), (VIDEO, 2000, other), (VIDEO, 2000, KEY)]
    grown = read_index(written(*tags), known=read_index(written(*media(2))))
    assert facts(grown) == facts(read_index(written(*tags)))
    assert len(grown.headers_at(grown.marks.points[-1].offset)) == 2


def test_another_file_in_its_place() -> None:
    tags = [(VIDEO, 0, AVC_HEADER), (8, 0, AAC_HEADER), *((VIDEO, at, KEY) for at in range(0, 9000, 70))]
    known = read_index(written(*media(3)))
    assert facts(read_index(written(*tags), known=known)) == facts(read_index(written(*tags)))


def test_it_rests() -> None:
    rests = []
    read_index(written(*media(30)), rest=lambda: rests.append(1))
    assert len(rests) > len(media(30)) / 100
