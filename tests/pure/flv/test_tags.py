"""Tags from bytes in any pieces, by the tables of annex E.2 to E.4.1."""

from contextlib import suppress
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.flv import FlvError, Tag, TagReader
from ingest.flv.tags import tag_bytes
from ingest.rtmp import Limits
from tests.pure.flv.files import AUDIO, DATA, DATA_AMF3, HEADER, KEY, SOUND, VIDEO, shape, tag, tags_of

FILE = HEADER + tag(DATA, 0, b"\x02\x00\x01x\x05") + tag(VIDEO, 40, KEY) + tag(AUDIO, 47, SOUND) + tag(AUDIO, 48, b"")

TIMESTAMPS = {0: "00000000", 0xFFFFFF: "ffffff00", 0x1000000: "00000001", 0x12345678: "34567812", 2**32 - 1: "f" * 8}
"""{timestamp: its 24 bits and the 8 above them}"""


@pytest.mark.parametrize(("timestamp", "written"), TIMESTAMPS.items())
def test_tag_bytes_match_the_specification(timestamp: int, written: str) -> None:
    made = bytes.fromhex("09" + "000003" + written + "000000" + "170100" + "0000000e")
    assert tag_bytes(VIDEO, timestamp, b"\x17\x01\x00") == made
    assert tags_of(HEADER + made) == [Tag(VIDEO, timestamp, b"\x17\x01\x00", 13)]


def test_tags_of_every_type_have_their_offset() -> None:
    file = FILE + tag(DATA_AMF3, 50, b"\0")
    found = tags_of(file)
    assert [item.type_id for item in found] == [DATA, VIDEO, AUDIO, AUDIO, DATA_AMF3]
    assert [file[item.offset] for item in found] == [DATA, VIDEO, AUDIO, AUDIO, DATA_AMF3]


@pytest.mark.parametrize(
    "header",
    [
        b"FLV\x01\x05\x00\x00\x00\x09" + bytes(4),
        b"FLV\x01\x00\x00\x00\x00\x09" + bytes(4),
        b"FLV\x02\xff\x00\x00\x00\x09" + b"\xff" * 4,
        b"FLV\x01\x05\x00\x00\x00\x10" + b"longer!" + bytes(4),
    ],
    ids=["usual", "no flags", "all flags, another version, a wrong size of the tag before", "a longer header"],
)
def test_file_headers_of_every_form_are_accepted(header: bytes) -> None:
    assert shape(tags_of(header + tag(VIDEO, 5, KEY))) == [(VIDEO, 5, KEY)]


def test_back_pointers_and_reserved_bits_are_not_checked() -> None:
    made = HEADER + tag(VIDEO, 5, KEY, before=7) + tag(AUDIO, 6, SOUND, first=0xC0 | AUDIO, before=2**32 - 1)
    assert shape(tags_of(made)) == [(VIDEO, 5, KEY), (AUDIO, 6, SOUND)]


def test_encrypted_tags_are_marked() -> None:
    found = tags_of(HEADER + tag(VIDEO, 5, KEY, first=0x20 | VIDEO) + tag(VIDEO, 6, KEY))
    assert [(item.type_id, item.is_encrypted) for item in found] == [(VIDEO, True), (VIDEO, False)]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"FLU\x01\x05\x00\x00\x00\x09" + bytes(4), "no FLV file"),
        (b"FLV\x01\x05\x00\x00\x00\x08" + bytes(4), "no FLV file"),
        (FILE + b"junk between the tags", f"no tag at byte {len(FILE)}: FLV has no type"),
        (FILE + bytes(40), f"no tag at byte {len(FILE)}: FLV has no type 0"),
    ],
    ids=["signature", "header too short", "junk", "zeros behind a crash"],
)
@pytest.mark.parametrize("step", [1, 7, 1000])
def test_junk_is_refused_after_the_tags_before_it_were_given(data: bytes, text: str, step: int) -> None:
    """The tags before it are given."""
    reader = TagReader()
    found: list[Tag] = []

    def read() -> None:
        for at in range(0, len(data), step):
            found.extend(reader.feed(data[at : at + step]))

    with pytest.raises(FlvError, match=text):
        read()
    assert found == (tags_of(FILE) if data.startswith(FILE) else [])


def test_limits_hold_before_a_payload_is_there() -> None:
    limits = Limits(media_message_bytes=100, data_message_bytes=50)
    for type_id, most in ((VIDEO, 100), (AUDIO, 100), (DATA, 50), (DATA_AMF3, 50)):
        assert len(list(TagReader(limits).feed(HEADER + tag(type_id, 0, bytes(most))))) == 1
        with pytest.raises(FlvError, match=f"tag at byte 13 has {most + 1} bytes, over the limit of {most}"):
            list(TagReader(limits).feed(HEADER + tag(type_id, 0, bytes(most + 1))[:11]))
    with pytest.raises(ValueError, match="16,777,215"):
        tag_bytes(VIDEO, 0, bytes(2**24))


def test_truncation_at_every_byte() -> None:
    """What a killed writer leaves is read up to the last whole tag, and known to be cut unless it ends with one."""
    whole = tags_of(FILE)
    ends = {len(HEADER)} | {item.offset + 11 + len(item.payload) + 4 for item in whole}
    for size in range(len(FILE) + 1):
        reader = TagReader()
        assert list(reader.read(BytesIO(FILE[:size]))) == [
            item for item in whole if item.offset + 11 + len(item.payload) <= size
        ]
        assert reader.is_truncated == (size not in ends), size


def test_from_the_middle_of_a_file() -> None:
    whole = tags_of(FILE)
    for item in whole:
        stream = BytesIO(FILE)
        stream.seek(item.offset)
        reader = TagReader(at=item.offset)
        assert list(reader.read(stream)) == whole[whole.index(item) :]
        assert not reader.is_truncated


tags = st.tuples(st.sampled_from([AUDIO, VIDEO, DATA, DATA_AMF3]), st.integers(0, 2**32 - 1), st.binary(max_size=40))


@given(st.lists(tags, max_size=8), st.lists(st.integers(1, 30), min_size=1), st.data())
def test_any_tags_in_any_pieces(made: list[tuple[int, int, bytes]], sizes: list[int], data: st.DataObject) -> None:
    file = HEADER + b"".join(tag_bytes(*item) for item in made)
    assert file == HEADER + b"".join(tag(*item) for item in made)
    cut = data.draw(st.integers(0, len(file)))
    reader, at = TagReader(), 0
    found: list[Tag] = []
    while at < cut:
        size = min(sizes[at % len(sizes)], cut - at)
        found += reader.feed(file[at : at + size])
        at += size
    assert found == tags_of(file[:cut])
    assert shape(tags_of(file)) == made


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_read_or_refused(data: bytes, has_header: bool) -> None:
    with suppress(FlvError):
        list(TagReader().feed(HEADER + data if has_header else data))
