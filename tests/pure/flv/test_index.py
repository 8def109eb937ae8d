"""Where to begin in a file: by its metadata, by looking it through, and where it has grown."""

from collections.abc import Callable
from io import BytesIO
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.flv import (
    FlvError,
    FlvIndex,
    SeekPoint,
    decode_metadata,
    read_index,
    scan,
    seek_points,
)
from ingest.flv.seek_points import MAX_HEADERS, MAX_POINTS, MAX_SLOTS, SeekIndex
from ingest.flv.tags import tag_bytes
from ingest.rtmp.amf import Amf3, EcmaArray, amf0
from ingest.rtmp.limits import DEFAULT_LIMITS
from ingest.rtmp.media import ExtendedAudio, ExtendedVideo, ModEx, Track, write_audio, write_video
from ingest.rtmp.media_tags import AudioPacket, MultitrackType, VideoPacket
from tests.pure.flv.files import (
    AAC_HEADER,
    AUDIO,
    AVC_HEADER,
    DATA,
    DATA_AMF3,
    HEADER,
    INTER,
    KEY,
    SOUND,
    VIDEO,
    Tags,
    media,
    tag,
    written,
)


class Counting(BytesIO):
    reads = 0

    def read(self, size: int | None = -1, /) -> bytes:
        self.reads += 1
        return super().read(size)


def file_of(tags: Tags, *, cut: int = 0) -> Counting:
    """Without its last bytes, as many as `cut`."""
    data = HEADER + b"".join(tag(*item) for item in tags)
    return Counting(data[: len(data) - cut])


def point_at(index: FlvIndex, time_ms: int) -> SeekPoint:
    found = index.at_or_before(time_ms)
    assert found
    return found


def times_of(index: FlvIndex) -> list[int]:
    return [point.time_ms for point in index.points]


Change = Callable[[dict[str, Any]], dict[str, Any]]


def times(stream: BytesIO) -> list[int]:
    return times_of(scan(stream))


def test_the_keyframe_at_or_before() -> None:
    stream = file_of(media(4))
    index = read_index(stream)
    assert times(stream) == [0, 1000, 2000, 3000]
    for time, expected in {-5: 0, 0: 0, 999: 0, 1000: 1000, 2999: 2000, 3000: 3000, 10**9: 3000}.items():
        point = point_at(index, time)
        assert point.time_ms == expected
        assert stream.getvalue()[point.offset : point.offset + 16].endswith(KEY[:5])
    assert (index.duration_ms, index.is_truncated, index.fault) == (3907, False, "")


def test_headers_at_an_offset_are_the_latest_before_it() -> None:
    other = AVC_HEADER + b"other"
    tags = [*media(2), (VIDEO, 2000, AVC_HEADER), (VIDEO, 2000, KEY), (VIDEO, 3000, other), (VIDEO, 3000, KEY)]
    stream = file_of(tags)
    index = scan(stream)
    starts = {mark.offset: stream.getvalue()[mark.offset + 11 :] for mark in index.headers}
    assert len(starts) == 3, "the repeated header is no other"
    before, after = (
        [starts[offset] for offset in index.headers_at(point_at(index, time).offset)] for time in (2000, 3000)
    )
    assert before[0].startswith(AVC_HEADER)
    assert not before[0].startswith(other)
    assert before[1].startswith(AAC_HEADER)
    assert after[0].startswith(AAC_HEADER)
    assert after[1].startswith(other)


def hevc(packet: VideoPacket, frame_type: int = 1, **more: Any) -> bytes:
    return write_video(ExtendedVideo(packet, (Track(b"hvc1", b"x" * 100),), frame_type=frame_type, **more))


def tracks(frame_type: int, *ids: int, kind: MultitrackType = MultitrackType.MANY_TRACKS) -> bytes:
    made = tuple(Track(b"av01", b"x" * 100, number) for number in ids)
    return write_video(ExtendedVideo(VideoPacket.CODED_FRAMES, made, kind, frame_type=frame_type))


KEYFRAMES = {
    "HEVC": hevc(VideoPacket.CODED_FRAMES),
    "HEVC without composition time": hevc(VideoPacket.CODED_FRAMES_X),
    "behind an extension longer than what is read at first": hevc(
        VideoPacket.CODED_FRAMES, mod_ex=(ModEx(0, bytes(200)),)
    ),
    "one track": tracks(1, 0, kind=MultitrackType.ONE_TRACK),
    "many tracks": tracks(1, 0, 1, 2),
    "many tracks and codecs": tracks(1, 0, 1, kind=MultitrackType.MANY_TRACKS_MANY_CODECS),
    "generated": hevc(VideoPacket.CODED_FRAMES, 4),
    "H.263": b"\x12frame",
    "AVC": KEY,
}
NO_KEYFRAMES = {
    "inter": hevc(VideoPacket.CODED_FRAMES, 2),
    "end of sequence": hevc(VideoPacket.SEQUENCE_END),
    "end of AVC's sequence": b"\x17\x02\0\0\0",
    "another track's": tracks(1, 1, kind=MultitrackType.ONE_TRACK),
    "many tracks, inter": tracks(2, 0, 1),
    "command": b"\x57\0",
    "cut": b"\x17",
    "empty": b"",
}


@pytest.mark.parametrize("payload", KEYFRAMES.values(), ids=KEYFRAMES)
def test_keyframes_of_every_form_are_seek_points(payload: bytes) -> None:
    assert times(file_of([(VIDEO, 0, tracks(1, 0)), (VIDEO, 40, INTER), (VIDEO, 80, payload)])) == [0, 80]


@pytest.mark.parametrize("payload", NO_KEYFRAMES.values(), ids=NO_KEYFRAMES)
def test_frames_that_are_no_keyframes_are_no_seek_points(payload: bytes) -> None:
    assert times(file_of([(VIDEO, 0, tracks(1, 0)), (VIDEO, 80, payload)])) == [0]


def test_extended_headers_hold_too() -> None:
    sound = write_audio(ExtendedAudio(AudioPacket.SEQUENCE_START, (Track(b"Opus", b"OpusHead" * 20),)))
    speakers = write_audio(ExtendedAudio(AudioPacket.MULTICHANNEL_CONFIG, (Track(b"Opus", b"\0\2"),)))
    tags = [(VIDEO, 0, hevc(VideoPacket.SEQUENCE_START)), (AUDIO, 0, sound), (AUDIO, 0, speakers), (VIDEO, 0, KEY)]
    index = scan(file_of(tags))
    assert len(index.headers_at(10**6)) == 3


def test_a_file_without_video_has_points_in_its_sound() -> None:
    sounds = [(AUDIO, 0, AAC_HEADER), *((AUDIO, time, SOUND) for time in range(0, 5000, 23))]
    found = times(file_of(sounds))
    assert len(found) == 5
    assert found[0] == 0
    assert all(1000 <= after - before < 1023 for before, after in pairwise(found))


def test_file_without_media_has_an_empty_index_and_junk_is_refused() -> None:
    index = read_index(BytesIO(HEADER))
    assert (index.at_or_before(0), index.duration_ms, index.is_truncated, index.headers_at(99)) == (None, 0, False, [])
    # The last says that its header has 4 GB: who goes on with the file must not write there.
    for data in (b"", b"FLV\x01", b"FLV\x01\x05\xfc\xff\xff\x08" + bytes(4)):
        with pytest.raises(FlvError, match="no FLV file"):
            read_index(BytesIO(data))


@pytest.mark.parametrize("start", [0, 5000, 2**31 - 1500, 2**32 - 1500])
def test_time_counts_from_the_first_tag_through_a_wrap(start: int) -> None:
    index = scan(file_of(media(4, start=start)))
    assert times_of(index) == [0, 1000, 2000, 3000]
    assert index.duration_ms == 3907


def test_an_encoder_that_begins_again_goes_on_in_time() -> None:
    index = scan(file_of([*media(5), *media(3)]))
    assert times_of(index) == [0, 1000, 2000, 3000, 4000, 4907, 5907, 6907]
    assert index.duration_ms == 4907 + 2907
    assert point_at(index, 6000).offset > len(file_of(media(5)).getvalue())


def test_sound_and_pictures_that_are_out_of_order_are_no_new_beginning() -> None:
    tags = [(VIDEO, 2000, KEY), (AUDIO, 0, SOUND), (VIDEO, 3000, KEY), (AUDIO, 1000, SOUND), (VIDEO, 4000, KEY)]
    assert times(file_of(tags)) == [0, 1000, 2000]


def test_encrypted_frames_are_no_points() -> None:
    data = HEADER + tag(VIDEO, 0, KEY) + tag(VIDEO, 1000, KEY, first=0x20 | VIDEO) + tag(VIDEO, 2000, KEY)
    assert times(BytesIO(data)) == [0, 2000]


def test_long_files_have_fewer_points() -> None:
    count = 3 * MAX_POINTS
    found = times(file_of([(VIDEO, time * 2000, KEY) for time in range(count)]))
    assert MAX_POINTS // 2 < len(found) <= MAX_POINTS
    steps = {after - before for before, after in pairwise(found)}
    assert steps == {8000}
    assert found[-1] > (count - 8) * 2000


@pytest.mark.parametrize("count", [300, 2 * MAX_HEADERS + 5])
def test_often_changing_headers_are_bounded_and_right_for_each_point(count: int) -> None:
    """Two encoders in turn, say: the header of each point is the one before it, and the sound's is the first."""
    tags = [(AUDIO, 0, AAC_HEADER)]
    for time in range(count):
        tags += [(VIDEO, time * 2000, AVC_HEADER + time.to_bytes(4, "big")), (VIDEO, time * 2000, KEY)]
    index = scan(file_of(tags))
    sound = len(HEADER)
    before = len(tag(*tags[1]))
    points = index.points
    assert len(points) >= min(count, MAX_HEADERS // 4)
    assert points[-1].time_ms > (count - 16) * 2000
    assert all(index.headers_at(point.offset) == [sound, point.offset - before] for point in points)
    assert len(index.headers) <= MAX_HEADERS


def test_headers_that_no_picture_follows_cost_no_points() -> None:
    many = [(VIDEO, 1000, AVC_HEADER + number.to_bytes(4, "big")) for number in range(2 * MAX_HEADERS)]
    index = scan(file_of([*media(2), *many, (VIDEO, 2000, KEY)]))
    first, second, last = index.points
    assert [index.headers_at(point.offset)[0] for point in (first, second)] == [len(HEADER)] * 2
    assert index.headers_at(last.offset)[-1] == last.offset - len(tag(*many[-1]))


def test_headers_of_too_many_tracks_are_bounded() -> None:
    kinds = (MultitrackType.ONE_TRACK, MultitrackType.MANY_TRACKS, MultitrackType.MANY_TRACKS_MANY_CODECS)
    tags = [
        (VIDEO, 0, write_video(ExtendedVideo(VideoPacket.SEQUENCE_START, (Track(b"av01", b"x", number),), kind)))
        for kind in kinds
        for number in range(256)
    ]
    index = scan(file_of([*tags, (VIDEO, 0, KEY)]))
    assert len(index.headers_at(10**6)) == MAX_SLOTS


def test_junk_ends_the_file_where_it_begins() -> None:
    good = file_of(media(3)).getvalue()
    index = scan(BytesIO(good + bytes(500)))
    assert index.end == len(good) - 4
    assert "no tag at byte" in index.fault
    assert len(index.points) == 3


def test_truncation_at_every_byte() -> None:
    whole = written(media(1)).getvalue()
    start = whole.index(AVC_HEADER)
    for size in range(start, len(whole)):
        index = read_index(BytesIO(whole[:size]))
        assert index.end <= size
        assert index.duration_ms <= 907
    assert read_index(BytesIO(whole)).duration_ms == 907


# --- Metadata ---


def claims(tags: Tags, change: Change = lambda truth: truth) -> BytesIO:
    """A file whose metadata tell the truth, unless `change` is another one of the same."""
    media_bytes = [tag(*item) for item in tags]
    begin = 0
    for _ in range(2):  # The second time with the size that metadata have.
        at, offsets = begin, []
        for item, data in zip(tags, media_bytes, strict=True):
            if item[2].startswith(KEY):
                offsets.append(float(at))
            at += len(data)
        index = {"times": list(map(float, range(len(offsets)))), "filepositions": offsets}
        properties = change({"filesize": float(at), "duration": 60.0, "keyframes": index})
        head = HEADER + tag_bytes(DATA, 0, amf0.encode("onMetaData", properties))
        begin = len(head)
    return BytesIO(head + b"".join(media_bytes))


def index_with(**changed: Callable[[list[Any]], Any]) -> Change:
    """The lists of the index put through these."""

    def change(truth: dict[str, Any]) -> dict[str, Any]:
        index = truth["keyframes"]
        return {**truth, "keyframes": {**index, **{name: made(index[name]) for name, made in changed.items()}}}

    return change


def test_metadata_that_are_true_are_believed() -> None:
    stream = claims(media(4))
    index = read_index(stream)
    assert index.duration_ms == 60_000, "which no tag says"
    assert index.points == scan(stream).points
    assert len(index.headers_at(10**6)) == 2


STEP = sum(len(tag(*item)) for item in media(1)[4:6])
"""Bytes from a picture to the next."""

UNTRUE: dict[str, Change] = {
    "another size": lambda truth: {**truth, "filesize": 1.0},
    "no index": lambda truth: {**truth, "keyframes": {}},
    "no object": lambda truth: {**truth, "keyframes": []},
    "no list": index_with(times=lambda times: 5.0),
    "of other lengths": index_with(times=lambda times: times[:3]),
    "other times": index_with(times=lambda times: [*times[:3], 3.5]),
    "not ascending": index_with(
        times=lambda times: [0.0, 1.0, 3.0, 2.0], filepositions=lambda at: [at[0], at[1], at[3], at[2]]
    ),
    "no tags there": index_with(filepositions=lambda at: [place + 1 for place in at]),
    "beyond the end": index_with(filepositions=lambda at: [*at[:3], 1e9]),
    "in the file's header": index_with(filepositions=lambda at: [2.0, *at[1:]]),
    "no numbers": index_with(times=lambda times: [str(time) for time in times]),
    "not a number": index_with(times=lambda times: [float("nan")] * 4),
    "other frames": index_with(
        times=lambda times: [0.0, 0.8, 0.9, 1.0],
        filepositions=lambda at: [at[0], at[1] - 2 * STEP, at[1] - STEP, at[1]],
    ),
}


@pytest.mark.parametrize("change", UNTRUE.values(), ids=UNTRUE)
def test_untrue_metadata_are_replaced_by_a_scan(change: Change) -> None:
    index = read_index(claims(media(4), change))
    assert index.duration_ms == 3907
    assert times_of(index) == [0, 1000, 2000, 3000]


@pytest.mark.parametrize(
    ("type_id", "payload", "expected"),
    [
        (DATA, amf0.encode("onMetaData", {"width": 1.0}), {"width": 1.0}),
        (DATA, amf0.encode("onMetaData", EcmaArray({"width": 1.0}), None, None), {"width": 1.0}),
        (DATA_AMF3, b"\0" + amf0.encode("onMetaData", Amf3({"width": 1.0})), {"width": 1.0}),
        (DATA, amf0.encode("onCuePoint", {"width": 1.0}), None),
        (DATA, amf0.encode("onMetaData"), None),
        (DATA, amf0.encode("onMetaData", 5.0), None),
        (DATA, amf0.encode("onMetaData", {"width": 1.0})[:-8], None),
        (DATA, b"", None),
    ],
)
def test_only_well_formed_on_meta_data_is_read_as_metadata(
    type_id: int, payload: bytes, expected: dict[str, Any] | None
) -> None:
    assert decode_metadata(payload, DEFAULT_LIMITS) == expected
    assert scan(BytesIO(HEADER + tag(type_id, 0, payload))).metadata == (expected or {})


def test_seek_point_has_its_time_and_offset() -> None:
    assert scan(file_of([(VIDEO, 7, KEY)])).at_or_before(0) == SeekPoint(time_ms=0, offset=len(HEADER))


def facts(index: FlvIndex) -> tuple[object, ...]:
    marks = index
    return marks.points, marks.headers, index.duration_ms, index.end, index.last, index.is_truncated, index.fault


def test_grown_file_is_indexed_by_its_added_tags_alone() -> None:
    known = read_index(file_of(media(20), cut=5))
    before = facts(known)
    longer = file_of(media(30))
    grown = read_index(longer, previous=known)
    assert facts(grown) == facts(read_index(file_of(media(30))))
    assert longer.reads < 1.1 * len(media(10)), "one for each tag that was added, and a few"
    assert facts(known) == before, "others read it meanwhile"


def test_headers_added_to_a_grown_file_are_indexed() -> None:
    other = AVC_HEADER + b"other"
    tags = [*media(2), (VIDEO, 2000, other), (VIDEO, 2000, KEY)]
    grown = read_index(file_of(tags), previous=read_index(file_of(media(2))))
    assert facts(grown) == facts(read_index(file_of(tags)))
    assert len(grown.headers_at(grown.points[-1].offset)) == 2


def test_replaced_file_is_indexed_from_scratch() -> None:
    tags = [(VIDEO, 0, AVC_HEADER), (8, 0, AAC_HEADER), *((VIDEO, at, KEY) for at in range(0, 9000, 70))]
    known = read_index(file_of(media(3)))
    assert facts(read_index(file_of(tags), previous=known)) == facts(read_index(file_of(tags)))


def test_indexing_reports_its_progress_regularly() -> None:
    rests = []
    read_index(file_of(media(30)), on_progress=lambda: rests.append(1))
    assert len(rests) > len(media(30)) / 100


FIRST = st.sampled_from([0x17, 0x27, 0x37, 0x2C, 0x2D, 0x57, 0xAF, 0xA0, 0x2F, 0x91, 0xA1])
PAYLOADS = st.builds(lambda first, rest: bytes((first, *rest)), FIRST, st.binary(max_size=12)) | st.binary(max_size=3)


@given(st.lists(st.tuples(st.sampled_from([8, 9]), st.integers(0, 5000), PAYLOADS), max_size=30))
def test_plain_frames_are_indexed_alike_with_and_without_the_shortcut(tags: Tags) -> None:
    def marked() -> SeekIndex:
        found = SeekIndex(DEFAULT_LIMITS)
        for place, (type_id, timestamp, payload) in enumerate(tags):
            found.add(type_id, timestamp, payload, 100 * place)
        return found

    quickly = marked()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seek_points, "PLAIN_VIDEO_FRAMES", frozenset())
        patch.setattr(seek_points, "PLAIN_AUDIO_FRAMES", frozenset())
        slowly = marked()
    for name in (
        "has_audio",
        "has_video",
        "index_is_complete",
        "duration_ms",
        "headers",
        "points",
        "_has_frames",
        "_track",
    ):
        assert getattr(quickly, name) == getattr(slowly, name), name
