"""Which messages of a file are sent for which part of it, how they are written, and when they may be."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.flv import FlvError, decode_metadata
from ingest.live.message import ALL_EXTENSIONS, OUT_CHUNK_SIZE
from ingest.rtmp import Limits
from ingest.rtmp.amf.amf0 import encode
from ingest.rtmp.chunk_reader import ChunkReader
from ingest.rtmp.chunk_writer import encode_message
from ingest.rtmp.media import write_video
from ingest.rtmp.messages import Message
from ingest.rtmp.messages.control import set_chunk_size
from ingest.server.vod import flv_source
from ingest.server.vod.flv_source import FlvSource, RecordedMessage, Span, asked_span, read_info
from ingest.server.vod.pacing import LEAST_AHEAD_MS, ChunkLane, Pacing
from tests.pure.live.test_extended import MOD_EX, MULTITRACK, ONE, SENT, expected, picture, together
from tests.rtmp_client import AUDIO, DATA, VIDEO
from tests.server.clients import Made
from tests.server.media import AAC_HEADER, AVC_HEADER, inter_frame, key_frame, sound
from tests.server.recorded.conftest import made, write

LIMITS = Limits()


@contextmanager
def opened(path: Path, takes: int = ALL_EXTENSIONS) -> Iterator[FlvSource]:
    found = FlvSource(path, read_info(path, None, LIMITS), LIMITS, takes)
    yield found
    found.close()


def all_of(path: Path, span: Span, takes: int = ALL_EXTENSIONS) -> list[RecordedMessage]:
    """All that is sent, without the metadata that come first."""
    with opened(path, takes) as found:
        batch = found.begin(span)
        pieces = batch.pieces
        while not batch.is_last:
            batch = found.read()
            pieces += batch.pieces
        assert not batch.fault
    assert pieces[0].type_id == DATA
    return pieces[1:]


def shape(pieces: list[RecordedMessage]) -> Made:
    return [(piece.type_id, piece.time_ms, piece.payload) for piece in pieces]


@st.composite
def recordings(draw: st.DrawFn) -> Made:
    """Headers, then pictures and sounds whose times go on, or a little back."""
    first = draw(st.sampled_from([0, 0, 40, 1_000_000]))
    messages: Made = [(VIDEO, first, AVC_HEADER), (AUDIO, first, AAC_HEADER)]
    time = first
    for number in range(draw(st.integers(0, 40))):
        time += draw(st.integers(0, 400))
        kind = draw(st.sampled_from(["key", "inter", "inter", "sound", "sound"]))
        at = max(time - draw(st.sampled_from([0, 0, 0, 30])), first)
        payload = {"key": key_frame, "inter": inter_frame, "sound": sound}[kind](number, 40)
        messages.append((AUDIO if kind == "sound" else VIDEO, at, payload))
    return messages


def is_key(message: tuple[int, int, bytes]) -> bool:
    return message[2].startswith(b"\x17\x01")


def reference(messages: Made, span: Span) -> Made:
    """By the words of section 7.2.2.1 alone; a single frame is the last one for a second behind it."""
    first = messages[0][1]
    timed = [(kind, at - first, payload) for kind, at, payload in messages]
    if span.start_ms > max(at for _, at, _ in timed) + 1000 * span.is_single:
        return []
    keys = [
        number  # Of those whose time goes back none is a place to begin: the one before leads there.
        for number, message in enumerate(timed)
        if is_key(message) and not any(is_key(each) and each[1] >= message[1] for each in timed[:number])
    ]
    before = [number for number in keys if timed[number][1] <= span.start_ms]
    begin = max(before, key=lambda number: (timed[number][1], -number), default=None)
    if span.is_single:
        at = begin if begin is not None else keys[0]
        return as_of(span, timed, at, [timed[at]])
    stop = span.stop_ms if span.stop_ms is not None else 10**12
    if begin is None or span.start_ms <= timed[keys[0]][1]:
        return as_of(span, timed, None, [message for message in timed if message[1] < stop])
    return as_of(span, timed, begin, [message for message in timed[begin:] if message[1] < stop])


def as_of(span: Span, timed: Made, begin: int | None, messages: Made) -> Made:
    """With the headers where it begins in the middle, and without the sound before the start."""
    headers = [(kind, timed[begin][1], payload) for kind, _, payload in timed[:2]] if begin is not None else []
    heard = [message for message in messages if not (message[2][:2] == b"\xaf\x01" and message[1] < span.start_ms)]
    return [(kind, max(at, span.start_ms), payload) for kind, at, payload in headers + heard]


@settings(max_examples=150)
@given(recordings().filter(lambda messages: any(map(is_key, messages))), st.data())
def test_flv_source_sends_exactly_the_messages_of_the_asked_span(messages: Made, data: st.DataObject) -> None:
    """From anywhere to anywhere, as often as not exactly from a message to another."""
    times = sorted({at - messages[0][1] for _, at, _ in messages})
    start = data.draw(st.one_of(st.sampled_from(times), st.integers(0, 9000)), "start")
    ends = [at - start for at in times if at > start]
    duration = data.draw(st.sampled_from([-1, 0, 1, 2500, 100_000, *ends, *ends]), "duration")
    span = asked_span(start, duration, "ms")
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / "clip.flv", messages)
        assert shape(all_of(path, span)) == reference(messages, span)


@pytest.mark.parametrize("start", [0, 1, 30, 31])
@pytest.mark.parametrize("duration", [-1, 0, 5])
def test_a_keyframe_whose_time_goes_back_is_no_place_to_begin(tmp_path: Path, start: int, duration: int) -> None:
    keys: Made = [(VIDEO, at, key_frame(number, 40)) for number, at in enumerate((31, 1, 60))]
    messages = [(VIDEO, 0, AVC_HEADER), (AUDIO, 0, AAC_HEADER), *keys]
    span = asked_span(start, duration, "ms")
    assert shape(all_of(write(tmp_path / "clip.flv", messages), span)) == reference(messages, span)


@pytest.mark.parametrize(
    ("start", "duration", "unit", "expected"),
    [
        (0, -1, "ms", Span(0)),
        (2500, -1, "ms", Span(2500, had_ms={AUDIO: 2500})),
        (2.5, -1, "s", Span(2500, had_ms={AUDIO: 2500})),
        (2.5, 1.5, "s", Span(2500, 4000, had_ms={AUDIO: 2500})),
        (-2, -1, "ms", Span(0)),
        (-2, 1000, "ms", Span(0, 1000)),
        (10, 0, "ms", Span(10, is_single=True, had_ms={AUDIO: 10})),
        (1e300, 1e300, "s", Span(2**53, 2**53, had_ms={AUDIO: 2**53})),
    ],
)
def test_play_arguments_are_converted_to_a_span(start: float, duration: float, unit: str, expected: Span) -> None:
    assert asked_span(start, duration, unit) == expected  # type: ignore[arg-type]


def test_audio_already_sent_is_skipped_and_pictures_repeat_from_the_keyframe(tmp_path: Path) -> None:
    """The pictures that others refer to come again, as of now: the player's time goes on."""
    path = write(tmp_path / "clip.flv", made(5))
    pieces = all_of(path, Span(3400, had_ms={AUDIO: 3420}))
    assert [piece.time_ms for piece in pieces[:2]] == [3420, 3420]
    frames = [piece for piece in pieces if piece.is_frame]
    assert all(after.time_ms >= before.time_ms for before, after in pairwise(frames))
    pictures = [piece for piece in frames if piece.type_id == VIDEO]
    assert pictures[0].is_keyframe
    assert [piece.time_ms for piece in pictures[:6]] == [3420, 3420, 3420, 3420, 3420, 3500]
    assert next(piece.time_ms for piece in frames if piece.type_id == AUDIO) == 3507


def test_audio_only_recording_is_sent_from_any_start(tmp_path: Path) -> None:
    messages = [message for message in made(5) if message[0] == AUDIO]
    path = write(tmp_path / "clip.flv", messages)
    assert shape(all_of(path, Span())) == [(kind, max(at - 0, 0), payload) for kind, at, payload in messages]
    assert all_of(path, Span(3400))[1].time_ms in range(2400, 3401)
    assert [piece.is_frame for piece in all_of(path, Span(3400, is_single=True))] == [False, True]


@pytest.mark.parametrize("takes", [0, MULTITRACK, MOD_EX, ALL_EXTENSIONS])
@pytest.mark.parametrize("start_ms", [0, 200])
def test_tracks_and_extensions_are_sent_by_what_the_player_supports(tmp_path: Path, takes: int, start_ms: int) -> None:
    """From the beginning, and from a keyframe with its headers on."""
    sent = [(VIDEO, 40 * number, write_video(message)) for number, (message, _, _) in enumerate(SENT)]
    path = write(tmp_path / "clip.flv", sent)
    assert [piece.payload for piece in all_of(path, Span(start_ms), takes)] == expected(takes)


def test_encrypted_tag_is_left_out_and_does_not_change_the_main_track(tmp_path: Path) -> None:
    """Of which the lowest stands for the others."""
    pictures = [picture(0, 1, key=True), picture(1), picture(2, 1), picture(3, 1)]
    payloads = [write_video(together(ONE, each)) for each in pictures]
    path = write(tmp_path / "clip.flv", [(VIDEO, 40 * number, payload) for number, payload in enumerate(payloads)])
    file = bytearray(path.read_bytes())
    file[file.index(payloads[1]) - 11] |= 0x20
    path.write_bytes(file)
    assert [piece.payload for piece in all_of(path, Span(), 0)] == [write_video(pictures[at]) for at in (0, 2, 3)]


def test_metadata_of_a_recording_holds_its_own_fields_and_the_duration(tmp_path: Path) -> None:
    path = write(tmp_path / "clip.flv", made(5))
    with opened(path) as found:
        metadata = decode_metadata(found.begin(Span()).pieces[0].payload, LIMITS)
    assert metadata == {"width": 640.0, "duration": 4.907}


def test_cue_points_of_a_recording_are_sent_and_unreadable_data_left_out(tmp_path: Path) -> None:
    """Cue points go where they stand, in AMF0; what can't be read is left out."""
    cue = encode("onCuePoint", {"name": "a"})
    messages = made(2)
    messages[10:10] = [(DATA, 400, cue), (15, 400, b"\0" + cue), (DATA, 400, b"\xff")]
    path = write(tmp_path / "clip.flv", messages)
    sent = [piece.payload for piece in all_of(path, Span()) if piece.type_id == DATA]
    assert sent == [cue, cue]


def test_a_file_that_was_not_closed_plays_as_far_as_it_is_written(tmp_path: Path) -> None:
    messages = made(2)
    path = write(tmp_path / "clip.flv", messages, finished=False)
    path.write_bytes(path.read_bytes()[:-30])
    assert shape(all_of(path, Span())) == messages[:-1]


def test_a_file_that_grows_plays_on(tmp_path: Path) -> None:
    path = write(tmp_path / "clip.flv", made(1), finished=False)
    with opened(path) as found:
        write(path, made(3), finished=False)
        batch = found.begin(Span())
        sent = batch.pieces[1:]
        while not batch.is_last:
            batch = found.read()
            sent += batch.pieces
    assert shape(sent) == made(3)


def test_batch_of_a_file_truncated_after_opening_reports_a_fault(tmp_path: Path) -> None:
    path = write(tmp_path / "clip.flv", made(3))
    with opened(path) as found:
        path.write_bytes(path.read_bytes()[:-2000])
        batch = found.begin(Span())
        while not batch.is_last:
            batch = found.read()
        assert "had" in batch.fault


def test_opening_a_file_replaced_after_its_lookup_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "clip.flv", made(3))
    leaf = read_info(path, None, LIMITS)
    write(tmp_path / "other.flv", made(1)).replace(path)
    with pytest.raises(FlvError, match="replaced"):
        FlvSource(path, leaf, LIMITS)


def test_read_info_reuses_its_result_until_the_file_changes(tmp_path: Path) -> None:
    path = write(tmp_path / "clip.flv", made(3))
    leaf = read_info(path, None, LIMITS)
    assert read_info(path, leaf, LIMITS) is leaf
    write(path, made(4))
    assert read_info(path, leaf, LIMITS).duration_ms == 3907


def test_a_batch_is_bounded(tmp_path: Path) -> None:
    """What a read gives; one message more where that is longer."""
    path = write(tmp_path / "clip.flv", made(60, fps=50))
    longest = 0
    with opened(path) as found:
        batch = found.begin(Span())
        while not batch.is_last:
            longest = max(longest, batch.size)
            batch = found.read()
    assert 0 < longest <= flv_source.READ_BYTES + 100


SIZES = st.sampled_from([0, 1, 5, 300, 300, 300, OUT_CHUNK_SIZE, OUT_CHUNK_SIZE + 1, 150_000])
MESSAGES = st.lists(st.tuples(st.sampled_from([AUDIO, VIDEO, VIDEO, DATA]), st.integers(0, 100), SIZES), max_size=30)


def read(data: bytes) -> list[tuple[int, int, int, bytes]]:
    reader = ChunkReader(Limits())
    reader.feed(encode_message(set_chunk_size(OUT_CHUNK_SIZE), chunk_stream_id=2, chunk_size=128) + data)
    found = []
    while messages := reader.read():
        found += messages
    return [message for message in found if message[0] in (AUDIO, VIDEO, DATA)]


@given(MESSAGES, MESSAGES, st.lists(st.integers(1, 100_000), max_size=20))
def test_chunk_lanes_interleaved_with_shared_bytes_are_read_back_whole(
    first: list[tuple[int, int, int]], second: list[tuple[int, int, int]], limits: list[int]
) -> None:
    """However they are cut: each kind of each stream's messages comes whole and in order."""
    lanes: list[ChunkLane] = []
    expected: dict[tuple[int, int], list[tuple[int, bytes]]] = {}
    for stream_id, messages in ((1, first), (2, second)):
        lane = ChunkLane.beside(lanes, stream_id)
        lanes.append(lane)
        time = 0
        for number, (kind, step, size) in enumerate(messages):
            time += step
            payload = bytes((number,)) * size
            lane.put(kind, time, payload)
            expected.setdefault((stream_id, kind), []).append((time, payload))
    shared = encode_message(Message(VIDEO, 7, 3, bytes(100_000)), chunk_stream_id=6, chunk_size=OUT_CHUNK_SIZE)
    written = b""
    for number, limit in enumerate([*limits, None, None]):
        written += lanes[number % 2].take(limit) + shared
        expected.setdefault((3, VIDEO), []).append((7, bytes(100_000)))
    found: dict[tuple[int, int], list[tuple[int, bytes]]] = {}
    for kind, time, stream_id, payload in read(written):
        found.setdefault((stream_id, kind), []).append((time, payload))
    assert found == expected


def test_chunk_lane_number_is_reused_when_it_is_free() -> None:
    first = ChunkLane.beside([], 1)
    second = ChunkLane.beside([first], 2)
    assert (first.number, second.number) == (0, 1)
    assert ChunkLane.beside([second], 3).number == 0


def test_headers_take_a_byte_for_messages_of_a_steady_pace() -> None:
    lane = ChunkLane.beside([], 1)
    for number in range(100):
        lane.put(VIDEO, number * 40, bytes(300))
    assert len(lane.take()) < 100 * 301 + 30


def test_pacing_advances_with_the_clock_and_stands_still_in_a_pause() -> None:
    pace = Pacing(2000)
    pace.begin(100.0, 5000)
    assert (pace.until_ms(100.0), pace.until_ms(103.5)) == (7000, 10_500)
    pace.pause(104.0)
    pace.pause(105.0)
    pace.resume(114.0)
    assert pace.until_ms(114.0) == 11_000
    pace.set_ahead(0)
    assert pace.until_ms(114.0) == 9000 + LEAST_AHEAD_MS


def test_pacing_begun_during_a_pause_starts_at_the_resume() -> None:
    pace = Pacing(1000)
    pace.begin(100.0, 0)
    pace.pause(101.0)
    pace.begin(150.0, 40_000)
    pace.resume(160.0)
    assert pace.until_ms(160.0) == 41_000


@given(st.integers(0, 10**8), st.integers(1, 10**6))
def test_pacing_wait_exceeds_the_due_time_by_at_most_a_second(ahead_ms: int, beyond_ms: int) -> None:
    """For what is not due yet; a second at most is gathered."""
    pace = Pacing(ahead_ms)
    pace.begin(0.0, 0)
    time_ms = round(pace.until_ms(0.0)) + beyond_ms
    wait_s = pace.wait_s(time_ms, 0.0)
    assert beyond_ms / 1000 + 0.05 <= wait_s + 1e-6
    assert wait_s <= beyond_ms / 1000 + 1
    assert pace.until_ms(wait_s) >= time_ms
