"""The metrics of a publishing session, against their definitions."""

import random
from dataclasses import dataclass, fields
from statistics import mean

import pytest

from ingest.contracts import Sample
from ingest.live import LiveStream, SocketFigures
from ingest.live.snapshot import snapshot
from tests.pure.live.payloads import (
    AAC_HEADER,
    START_WALL,
    Player,
    Socket,
    avc_header,
    inter,
    keyframe,
    make_stream,
    publisher,
    relay,
    sound,
    started,
)


@dataclass
class Frame:
    """A message to come: when (s), what, and its timestamp (ms)."""

    at: float
    kind: str
    timestamp: int
    payload: bytes


def steady(seconds: float, *, fps: int = 30, gop: int = 60, start: float = 0.0, base: int = 0) -> list[Frame]:
    """Video of `fps` frames with a keyframe every `gop`, and 50 audio frames a second."""
    frames = []
    for number in range(round(seconds * fps)):
        payload = keyframe(number, 900) if number % gop == 0 else inter(number, 300)
        frames.append(Frame(start + number / fps, "video", base + number * 1000 // fps, payload))
    frames += [
        Frame(start + number / 50, "audio", base + number * 20, sound(number, 100))
        for number in range(round(seconds * 50))
    ]
    return sorted(frames, key=lambda frame: frame.at)


def play_out(
    stream: LiveStream, frames: list[Frame], *, first_tick: float = 1.0, until: float | None = None
) -> list[Sample]:
    """Send the frames when they are due, with a tick each second (after what is due at the same time)."""
    samples: list[Sample] = []
    tick_at = first_tick
    end = until if until is not None else frames[-1].at
    for frame in frames:
        while tick_at < frame.at:
            samples += stream.tick(tick_at, START_WALL + tick_at)
            tick_at += 1
        (stream.video if frame.kind == "video" else stream.audio)(frame.timestamp, frame.payload, frame.at)
    while tick_at <= end:
        samples += stream.tick(tick_at, START_WALL + tick_at)
        tick_at += 1
    return samples


def test_samples_of_a_steady_stream_have_its_exact_figures() -> None:
    samples = play_out(started(), steady(20.0), until=19.0)
    last = samples[-1]
    assert [sample.sequence for sample in samples] == list(range(1, 20))
    assert [sample.at_us for sample in samples[:2]] == [1_700_000_001_000_000, 1_700_000_002_000_000]
    assert {sample.elapsed_ms for sample in samples} == {1000}
    assert (last.session, last.node, last.app, last.name, last.stream, last.key) == (
        "session-1", "node-1", "live", "demo", 7, 9
    )  # fmt: skip
    # 30 frames a second, every 60th of them of 900 bytes, the others of 300; 50 audio frames of 100.
    assert {sample.video_bytes for sample in samples[2:]} == {9000, 9600}
    assert {sample.audio_bytes for sample in samples[2:]} == {5000}
    assert {sample.video_kbps for sample in samples[2:]} == {72.0, 76.8}
    assert {sample.audio_kbps for sample in samples[2:]} == {40.0}
    assert last.fps == pytest.approx(30, abs=0.1)
    assert last.fps_media == pytest.approx(30, abs=0.1)
    assert (last.keyframe_interval, last.keyframe_interval_max) == (2.0, 2.0)
    # The tick at 19 s comes before the frames that are due then; the last keyframe came at 18 s.
    assert last.open_gop_age == pytest.approx(1.0, abs=0.04)
    assert last.drift == pytest.approx(0, abs=1)
    assert last.drift_dev == pytest.approx(0, abs=1)
    assert abs(last.av_skew or 0) <= 33
    assert (last.ts_gap, last.ts_regress, last.missing_frames_est) == (0, 0, 0)
    assert last.health == "good"


def test_samples_add_up_to_the_totals_exactly() -> None:
    generator = random.Random(3)
    stream = started()
    stream.data(0, "onMetaData", [{}], b"metadata", 0.0)
    relay(stream, (0, avc_header()), (0, AAC_HEADER))
    player = Player(stream)
    frames = steady(12.3)
    for frame in frames:
        frame.payload += bytes(generator.randrange(500))
        frame.at += generator.random() * 0.3
    frames.sort(key=lambda frame: frame.at)
    samples = play_out(stream, frames, first_tick=0.97)
    sent = len(b"".join(player.subscriber.take()))
    totals = stream.stop("session-1", 12.654)
    samples += stream.tick(12.97, START_WALL + 12.97)

    assert totals["bytes_in"] == len(b"metadata" + avc_header() + AAC_HEADER) + sum(len(f.payload) for f in frames)
    assert totals["video_frames"] == sum(frame.kind == "video" for frame in frames) == 369
    assert totals["audio_frames"] == sum(frame.kind == "audio" for frame in frames) == 615
    assert totals["keyframes"] == 7
    assert totals["bytes_out"] == sent
    assert totals["duration_ms"] == 12654
    summed = {field.name: sum(getattr(s, field.name) for s in samples) for field in fields(Sample) if field.type is int}
    assert summed["video_bytes"] + summed["audio_bytes"] + summed["data_bytes"] == totals["bytes_in"]
    assert summed["elapsed_ms"] == totals["duration_ms"]
    assert summed["out_bytes"] == totals["bytes_out"]
    for name in ("video_frames", "audio_frames", "keyframes", "dropped_frames"):
        assert summed[name] == totals[name]
    for sample in samples:
        for kind in ("video", "audio", "out"):
            by_bytes = 8 * getattr(sample, f"{kind}_bytes") / sample.elapsed_ms
            assert getattr(sample, f"{kind}_kbps") == pytest.approx(by_bytes, abs=0.001)


def test_the_last_part_of_a_second_is_a_sample_of_its_own() -> None:
    stream = started()
    play_out(stream, steady(3.0), until=3.0)
    stream.audio(3000, sound(1, 100), 3.2)
    stream.stop("session-1", 3.25)
    stream.start(publisher("session-2"), 3.5)
    stream.audio(0, sound(1, 40), 3.6)
    samples = stream.tick(4.0, START_WALL + 4.0)
    assert [(s.session, s.sequence, s.elapsed_ms, s.audio_bytes, s.at_us) for s in samples] == [
        ("session-1", 4, 250, 100, 1_700_000_003_250_000),
        ("session-2", 1, 500, 40, 1_700_000_004_000_000),
    ]
    assert samples[0].audio_kbps == 3.2
    assert [s.session for s in stream.tick(5.0, START_WALL + 5.0)] == ["session-2"]


def test_samples_of_a_session_without_media_have_null_figures() -> None:
    stream = started()
    (sample,) = stream.tick(1.0, START_WALL + 1.0)
    assert (sample.fps, sample.fps_media, sample.keyframe_interval, sample.open_gop_age) == (None, None, None, None)
    assert (sample.drift, sample.drift_dev, sample.av_skew, sample.rtt_ms, sample.retrans) == (None,) * 5
    assert (sample.idle_ms, sample.health, sample.video_kbps) == (1000, "none", 0.0)
    totals = stream.stop("session-1", 1.0)
    assert totals["duration_ms"] == 1000
    (last,) = stream.tick(2.0, START_WALL + 2.0)
    assert (last.elapsed_ms, last.video_kbps) == (0, 0.0)


def test_sequence_headers_count_as_bytes_and_not_as_frames() -> None:
    stream = started()
    relay(stream, (0, avc_header()), (0, AAC_HEADER), now=0.1)
    stream.video(0, b"\x17\x02\x00\x00\x00", 0.1)
    (sample,) = stream.tick(1.0, START_WALL + 1.0)
    assert (sample.video_frames, sample.audio_frames, sample.keyframes) == (0, 0, 0)
    assert (sample.video_bytes, sample.audio_bytes) == (len(avc_header()) + 5, 4)


def test_fps_is_measured_by_arrival_and_by_timestamps() -> None:
    """An encoder that sends 30 frames in 1.25 s, but stamps them as if in 1 s."""
    frames = [
        Frame(number / 24, "video", number * 1000 // 30, keyframe(number) if number % 30 == 0 else inter(number))
        for number in range(240)
    ]
    last = play_out(started(), frames, until=9.0)[-1]
    assert last.fps == pytest.approx(24, abs=0.2)
    assert last.fps_media == pytest.approx(30, abs=0.2)
    # Each second of wall time brings 0.8 s of media.
    assert last.drift == pytest.approx(9000 * 0.2, abs=50)


def test_fps_is_averaged_over_five_seconds() -> None:
    frames = steady(6.0, fps=30) + steady(6.0, fps=15, start=6.0, base=6000)
    samples = play_out(started(), frames, until=11.5)
    by_second = {sample.sequence: sample.fps for sample in samples}
    assert by_second[6] == pytest.approx(30, abs=0.3)
    assert by_second[8] == pytest.approx((3 * 30 + 2 * 15) / 5, abs=0.3)
    assert by_second[11] == pytest.approx(15, abs=0.3)


def test_samples_have_the_last_and_the_longest_keyframe_interval() -> None:
    stream = started()
    for seconds in (0, 2, 4, 9, 10, 11, 12, 13, 14):
        stream.video(seconds * 1000, keyframe(seconds), float(seconds))
        stream.video(seconds * 1000 + 500, inter(seconds), seconds + 0.5)
        if seconds == 12:
            (at_12,) = stream.tick(12.75, START_WALL)
    (at_14,) = stream.tick(14.75, START_WALL)
    assert (at_12.keyframe_interval, at_12.keyframe_interval_max) == (1.0, 5.0)
    assert (at_14.keyframe_interval, at_14.keyframe_interval_max) == (1.0, 1.0)
    assert at_14.open_gop_age == 0.75


def test_the_open_group_of_pictures_is_counted_from_the_first_video_where_no_keyframe_came() -> None:
    stream = started()
    stream.audio(0, sound(0), 1.0)
    stream.video(0, inter(0), 2.0)
    stream.video(33, inter(1), 9.0)
    (sample,) = stream.tick(10.0, START_WALL)
    assert (sample.open_gop_age, sample.keyframe_interval) == (8.0, None)


def test_drift_and_its_deviation_from_the_minute_before() -> None:
    """Media in step for 60 s, then 100 ms more behind each second."""
    stream = started()
    drifts: list[float] = []
    now = 0.0
    for second in range(80):
        now += 1.0 if second < 60 else 1.1
        stream.video(second * 1000, keyframe(second), now)
        (sample,) = stream.tick(now, START_WALL + now)
        drifts.append(max(0, second - 59) * 100.0)
        assert sample.drift == pytest.approx(drifts[-1], abs=2.5), "less what clocks may be off by"
        assert sample.drift_dev == pytest.approx(drifts[-1] - mean(drifts[-60:]), abs=0.2)
    assert drifts[-1] == 2000


def test_drift_of_sound_alone() -> None:
    stream = started()
    stream.audio(100, sound(0), 1.0)
    stream.audio(1100, sound(1), 2.25)
    (sample,) = stream.tick(3.0, START_WALL)
    assert sample.drift == pytest.approx(250, abs=0.2)


@pytest.mark.parametrize(
    ("timestamps", "gaps", "regressions"),
    [
        ([0, 33, 66, 100], 0, 0),
        ([0, 500, 1000], 0, 0),
        ([0, 501, 1100], 2, 0),
        ([1000, 990, 1023], 0, 1),
        ([0xFFFFFFE0, 1, 34], 0, 0),
        ([0xFFFFFFE0, 600, 633], 1, 0),
        ([20, 0xFFFFFFF0, 30], 0, 1),
        ([0, 0, 0], 0, 0),
    ],
)
def test_timestamp_gaps_and_regressions_are_counted(timestamps: list[int], gaps: int, regressions: int) -> None:
    for kind in ("audio", "video"):
        stream = started()
        for number, timestamp in enumerate(timestamps):
            if kind == "audio":
                stream.audio(timestamp, sound(number), 0.1)
            else:
                stream.video(timestamp, keyframe(number), 0.1)
        (sample,) = stream.tick(1.0, START_WALL)
        assert (sample.ts_gap, sample.ts_regress) == (gaps, regressions)


@pytest.mark.parametrize(
    ("claimed", "timestamps", "gaps", "missing"),
    [
        (1.0, [0, 1000, 2000, 5000, 8001], 1, 2 + 2),
        # 120 ms: 2 missing. 58 ms: less than half a frame more than one. 101 ms: 2.5 frames, so round(2.525) - 1 = 2.
        (25.0, [0, 40, 80, 200, 241, 299, 400, 300, 340], 0, 2 + 0 + 2),
        (25.0, [0, 40, 80, 3_600_080, 3_600_120, 3_600_240], 1, 2),
    ],
    ids=["three frames of a slow stream are no gap", "missing frames", "a jump of the clock misses no frames"],
)
def test_gaps_and_missing_frames_by_the_claimed_frame_rate(
    claimed: float, timestamps: list[int], gaps: int, missing: int
) -> None:
    stream = started()
    stream.data(0, "onMetaData", [{"framerate": claimed}], b"", 0.0)
    stream.tick(0.5, START_WALL)
    for number, timestamp in enumerate(timestamps):
        stream.video(timestamp, keyframe(number), 1.0)
    (sample,) = stream.tick(1.0, START_WALL)
    assert (sample.ts_gap, sample.missing_frames_est) == (gaps, missing)


def test_faulty_messages_are_counted_and_relayed() -> None:
    stream = started()
    player = Player(stream)
    stream.video(0, keyframe(0), 0.1)
    faulty = [b"\x17", b"\x27\x01\x00", b"\x91hv", b"\x96\x31av01\x00", b"\x96\x11av01\x00\x00\x00\x03x\x01"]
    for number, payload in enumerate(faulty):
        stream.video(number, payload, 0.2)
    stream.audio(5, b"\xaf", 0.3)
    for payload in (inter(1), b"", b"\x57\x00", b"\x92avc1abc", b"\x93zzzzabcd"):
        stream.video(6, payload, 0.4)
    for payload in (sound(1), b"", b"\x92Opus"):
        stream.audio(6, payload, 0.5)
    (sample,) = stream.tick(1.0, START_WALL)
    assert sample.media_faults == len(faulty) + 1
    assert snapshot(stream)["media_faults"] == len(faulty) + 1
    stream.video(40, b"\x17", 1.1)
    (sample,) = stream.tick(2.0, START_WALL + 1)
    assert sample.media_faults == 1
    assert snapshot(stream)["media_faults"] == len(faulty) + 2, "of the session"
    assert [payload for payload in player.payloads() if payload in faulty] == [*faulty, b"\x17"]


def test_missing_frames_by_the_measured_frame_rate() -> None:
    frames = steady(5.0)
    lost = [frame for frame in frames if frame.kind == "audio" or not 3000 <= frame.timestamp < 3500]
    samples = play_out(started(), lost, until=5.0)
    assert sum(sample.missing_frames_est for sample in samples) == 15


def test_skew_is_of_the_latest_frames() -> None:
    stream = started()
    relay(stream, (0xFFFFFFFF, keyframe(0)), (199, sound(0)), now=0.1)
    (sample,) = stream.tick(1.0, START_WALL)
    assert sample.av_skew == -200


def test_idle_counts_any_audio_or_video() -> None:
    stream = started()
    stream.video(0, avc_header(), 0.25)
    assert stream.tick(1.0, START_WALL)[0].idle_ms == 750
    stream.audio(0, sound(0), 1.5)
    stream.data(0, "onCuePoint", [], b"", 1.9)
    assert stream.tick(2.0, START_WALL)[0].idle_ms == 500


def test_samples_have_wire_bytes_rtt_and_retransmits_of_the_socket() -> None:
    stream, session, socket = make_stream(), publisher(), Socket(5000)
    session.socket = socket
    stream.start(session, 0.0)
    socket.figures = SocketFigures(6250, rtt_ms=12.5, retrans=3)
    (first,) = stream.tick(1.0, START_WALL)
    socket.figures = SocketFigures(7500, rtt_ms=13.5, retrans=8)
    (second,) = stream.tick(3.0, START_WALL)
    assert (first.wire_bytes, first.wire_kbps, first.rtt_ms, first.retrans) == (1250, 10.0, 12.5, 3)
    assert (second.wire_bytes, second.wire_kbps, second.rtt_ms, second.retrans) == (1250, 5.0, 13.5, 5)


def test_samples_count_players_slow_players_and_bytes_sent() -> None:
    stream = started()
    stay, leave = Player(stream), Player(stream)
    stream.video(0, keyframe(0, 100), 0.1)
    stay.subscriber.take()
    leave.subscriber.take()
    stream.unsubscribe(leave.subscriber)
    (first,) = stream.tick(1.0, START_WALL)
    # Under one header of 12 bytes each.
    assert (first.players, first.out_bytes, first.slow_players) == (1, 2 * 112, 0)
    stream.video(33, inter(1, 50), 1.1)
    stream.video(2133, inter(2, 50), 3.2)
    (second,) = stream.tick(3.5, START_WALL)
    assert (second.players, second.out_bytes, second.slow_players) == (1, 0, 1)


def test_frames_dropped_for_players_are_shown_for_a_minute() -> None:
    stream = started()
    slow = Player(stream)
    for number in range(30):
        stream.video(number * 1000, keyframe(0) if number == 0 else inter(number), float(number))
    (sample,) = stream.tick(30.0, START_WALL)
    assert slow.subscriber.dropped_frames == 30
    assert sample.dropped_frames == 30
    stream.unsubscribe(slow.subscriber)
    assert stream.tick(31.0, START_WALL)[0].dropped_frames == 0
    assert snapshot(stream)["dropped_frames"] == 30, "those of a minute, as they come in bursts"
    for second in range(32, 91):
        stream.tick(float(second), START_WALL)
    assert snapshot(stream)["dropped_frames"] == 0


def test_repeated_pauses_do_not_reset_the_idle_time() -> None:
    """So that another of the same key finds it silent in the end."""
    stream = started()
    stream.audio(0, sound(1), 1.0)
    for second in range(1, 6):
        stream.pause(second + 0.5)
        (sample,) = stream.tick(second + 0.7, 0.0)
        assert sample.idle_ms == 0
        stream.resume(second + 1.0)
    (sample,) = stream.tick(6.0, 0.0)
    assert sample.idle_ms == 2500
