"""What the writer makes: playable at any moment, patched in place when finished, gone on with after a crash."""

import subprocess
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.flv import FlvError, FlvWriter, decode_metadata, read_index, scan
from ingest.flv.seek_points import MAX_POINTS
from ingest.rtmp.amf import Amf3, amf0
from ingest.rtmp.limits import DEFAULT_LIMITS
from ingest.rtmp.messages import MessageType
from tests.pure.flv.files import (
    AAC_HEADER,
    AUDIO,
    AVC_HEADER,
    DATA,
    HEADER,
    KEY,
    SOUND,
    VIDEO,
    Tags,
    media,
    shape,
    tag,
    tags_of,
    written,
)
from tests.pure.flv.test_index import Counting, file_of, point_at, times_of


def metadata_of(stream: BytesIO) -> dict[str, Any]:
    found = decode_metadata(tags_of(stream.getvalue())[0].payload, DEFAULT_LIMITS)
    assert found is not None
    return found


def test_unfinished_file_has_all_its_tags_and_can_be_indexed() -> None:
    stream = written(media(3), finished=False)
    first, *rest = tags_of(stream.getvalue())
    assert shape(rest) == media(3)
    assert metadata_of(stream) == {"width": 320.0}, "what another file was said to be long is not taken over"
    assert first.offset == len(HEADER)
    assert times_of(read_index(stream)) == [0, 1000, 2000]


def test_finishing_patches_in_place() -> None:
    before, stream = written(media(3), finished=False).getvalue(), written(media(3))
    after = stream.getvalue()
    assert len(after) == len(before)
    room = len(tags_of(before)[0].payload) + 24
    assert after[room:] == before[room:], "nothing behind the metadata moves"
    found = metadata_of(stream)
    assert (found["duration"], found["filesize"], found["width"]) == (2.907, len(after), 320)
    assert found["keyframes"]["times"] == [0, 1, 2]
    for offset in found["keyframes"]["filepositions"]:
        assert after[int(offset) :].startswith(bytes((VIDEO,)))
    index = read_index(stream)
    assert index.points == scan(stream).points
    assert stream.tell() >= 0


@pytest.mark.parametrize(
    ("tags", "flags"),
    [(media(1), 5), ([(VIDEO, 0, KEY)], 1), ([(AUDIO, 0, AAC_HEADER), (AUDIO, 0, SOUND)], 4), ([], 0)],
)
def test_finished_file_header_tells_which_media_there_are(tags: Tags, flags: int) -> None:
    assert written(tags, finished=False).getvalue()[4] == 5
    assert written(tags).getvalue()[4] == flags


UNTOLD = {
    "wrap": media(3, start=2**32 - 1500),
    "an encoder that began again": [*media(5), *media(2)],
    "headers that change": [*media(1), (VIDEO, 1000, AVC_HEADER + b"other"), (VIDEO, 1000, KEY)],
    "headers that come late": [(VIDEO, 0, AVC_HEADER), (VIDEO, 0, KEY), (AUDIO, 10, AAC_HEADER), (AUDIO, 20, SOUND)],
    "no video": [(AUDIO, 0, AAC_HEADER), (AUDIO, 0, SOUND)],
}


@pytest.mark.parametrize("tags", UNTOLD.values(), ids=UNTOLD)
def test_an_index_that_would_not_be_true_is_left_out(tags: Tags) -> None:
    stream = written(tags)
    found = metadata_of(stream)
    assert "keyframes" not in found
    assert found["duration"] == read_index(stream).duration_ms / 1000
    assert read_index(stream).points == scan(stream).points


def test_repeated_headers_do_not_remove_the_index() -> None:
    assert metadata_of(written([*media(2), *media(1, start=2000)]))["keyframes"]["times"] == [0, 1, 2]


def test_a_file_that_begins_later_has_its_own_times() -> None:
    stream = written(media(3, start=60_000))
    assert metadata_of(stream)["keyframes"]["times"] == [60, 61, 62], "players compare them with timestamps"
    assert point_at(read_index(stream), 1500).time_ms == 1000


def test_a_long_file_has_room_for_its_index() -> None:
    stream = written([(VIDEO, 0, AVC_HEADER), *((VIDEO, time * 1000, KEY) for time in range(MAX_POINTS + 10))])
    times = metadata_of(stream)["keyframes"]["times"]
    assert len(times) == MAX_POINTS // 2 + 5
    assert read_index(stream).points == scan(stream).points


# --- Going on ---


def resumed(stream: BytesIO, tags: Tags) -> FlvWriter:
    writer = FlvWriter.resume(stream)
    for item in tags:
        writer.write(*item)
    writer.finish()
    return writer


@pytest.mark.parametrize("finished", [True, False])
def test_resumed_file_equals_one_written_without_a_stop(finished: bool) -> None:
    first, then = media(2), media(3, start=2000)
    stream = written(first, finished=finished)
    writer = resumed(stream, then)
    assert stream.getvalue() == written([*first, *then]).getvalue()
    assert writer.duration_ms == 4907
    assert writer.last_timestamp == 4907
    assert writer.size == len(stream.getvalue())


def test_resumed_file_keeps_its_whole_tags_after_a_kill_at_any_byte() -> None:
    whole = written(media(1), finished=False).getvalue()
    start = whole.index(AVC_HEADER)
    for size in range(start, len(whole), 3):
        stream = BytesIO(whole[:size])
        kept = shape(tags_of(whole[:size]))[1:]
        resumed(stream, [(VIDEO, 5000, KEY)])
        assert stream.getvalue() == written([*kept, (VIDEO, 5000, KEY)]).getvalue()


def test_resuming_cuts_off_junk_behind_the_last_tag() -> None:
    stream = BytesIO(written(media(1), finished=False).getvalue() + bytes(5000))
    resumed(stream, media(1, start=1000))
    assert stream.getvalue() == written([*media(1), *media(1, start=1000)]).getvalue()


def test_resuming_a_foreign_file_keeps_its_metadata_and_refits_its_index() -> None:
    """Without room its metadata stay; where they have an index, it is made to fit again."""
    bare = file_of(media(1))
    resumed(bare, media(1, start=1000))
    assert shape(tags_of(bare.getvalue())) == [*media(1), *media(1, start=1000)]
    tight = amf0.encode("onMetaData", {"duration": 1.0, "filesize": 1.0, "keyframes": {"times": [0.0] * 8}})
    stream = BytesIO(HEADER + tag(DATA, 0, tight) + b"".join(tag(*item) for item in media(4)))
    resumed(stream, media(1, start=4000))
    found = metadata_of(stream)
    assert found["filesize"] == len(stream.getvalue())
    assert found["keyframes"]["times"] == [0, 4], "as many as there is room for"
    small = BytesIO(HEADER + tag(DATA, 0, amf0.encode("onMetaData", {"a": 1.0})) + tag(VIDEO, 0, KEY))
    resumed(small, [])
    assert metadata_of(small) == {"a": 1.0}
    with pytest.raises(FlvError):
        FlvWriter.resume(BytesIO(b"RIFF, not FLV"))


payloads = st.one_of(st.sampled_from([KEY, AVC_HEADER, AAC_HEADER, SOUND]), st.binary(max_size=30))
tags = st.tuples(st.sampled_from([AUDIO, VIDEO, DATA]), st.integers(0, 2**32 - 1), payloads)


@pytest.mark.parametrize(
    "properties",
    [
        amf0.encode({"width": 320.0, "x": Amf3(b"bytes")}),
        # The first `a` holds an array within an array, to which `b` refers; the second `a` replaces it.
        bytes.fromhex("03 0001 61 0a00000001 0a00000001 070002 0001 61 05 0001 62 070002")
        + amf0.encode({"width": 320.0})[1:],
        amf0.encode({"width": 320.0})[:-3] + b"\xff\xff" + b"\xff" * 0xFFFF + b"\x05" + b"\x00\x00\x09",
    ],
    ids=["a value in AMF3", "a reference into what is gone", "a name that grows when read as UTF-8"],
)
def test_metadata_that_cannot_be_written_again_are_left_out(properties: bytes) -> None:
    stream = BytesIO(HEADER + tag(DATA, 0, amf0.encode("onMetaData") + properties + b"\x05" * 500) + tag(VIDEO, 5, KEY))
    given_properties = scan(BytesIO(stream.getvalue())).metadata
    assert len(given_properties) > 1
    FlvWriter.resume(stream).finish()
    assert metadata_of(stream)["width"] == 320.0
    begun = BytesIO()
    FlvWriter.begin(begun, given_properties).finish()
    assert metadata_of(begun)["width"] == 320.0


@given(st.lists(tags, max_size=12), st.lists(tags, max_size=4))
def test_any_written_and_resumed_tags_are_read_back(first: Tags, then: Tags) -> None:
    stream = written(first)
    resumed(stream, then)
    assert shape(tags_of(stream.getvalue()))[1:] == [*first, *then]
    index = read_index(stream)
    assert not index.is_truncated
    assert index.points == scan(stream).points
    assert metadata_of(stream)["filesize"] == len(stream.getvalue())


WRITING = """
import sys
from ingest.flv import FlvWriter
from tests.pure.flv.files import media

with open(sys.argv[1], "wb") as stream:
    writer = FlvWriter.begin(stream, {})
    for second in range(10**6):
        for item in media(1, start=second * 1000):
            writer.write(*item)
        stream.flush()
        print(second, flush=True)
"""


def test_a_killed_writer_leaves_a_file_that_plays(tmp_path: Path) -> None:
    path = tmp_path / "killed.flv"
    with subprocess.Popen([sys.executable, "-c", WRITING, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        for line in process.stdout:
            if int(line) >= 5:
                break
        process.kill()
    with path.open("r+b") as stream:
        index = read_index(stream)
        assert not index.fault
        assert point_at(index, 4500).time_ms == 4000
        writer = FlvWriter.resume(stream)
        writer.finish()
        assert read_index(stream).metadata["duration"] == writer.duration_ms / 1000 >= 5.9


LATE_DATA = (int(MessageType.DATA_AMF0), 59_950, b"\x02\x00\x02hi")


def gone_on(stream: BytesIO) -> bytes:
    """With ten seconds more."""
    resumed(stream, media(10, start=60_000))
    return stream.getvalue()


@pytest.mark.parametrize("tags", [media(60), [*media(60), LATE_DATA]], ids=["media", "data at the end"])
def test_resuming_a_finished_file_does_not_scan_its_tags(tags: Tags) -> None:
    finished = Counting(written(tags).getvalue())
    made = gone_on(finished)
    assert made == gone_on(written(tags, finished=False)), "the same as by looking at each tag"
    assert finished.reads < 300
    assert read_index(BytesIO(made)).duration_ms == 69_907


@pytest.mark.parametrize(
    "tags",
    [[*media(30), *media(30, start=2**32 - 10_000)], [*media(60), (8, 5, b"\xaf\x01late")]],
    ids=["begins again", "ends before it began"],
)
def test_resuming_a_file_with_an_insufficient_index_is_the_same_as_by_scan(tags: Tags) -> None:
    assert gone_on(written(tags)) == gone_on(written(tags, finished=False))
