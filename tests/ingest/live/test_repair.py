"""What players get for timestamps that jump, go back, wrap and begin anew: a time that goes on, in sync."""

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ingest.live import LiveStream
from ingest.live.snapshot import snapshot
from ingest.live.timeline import PlayersTime
from ingest.rtmp.messages import TIMESTAMP_WRAP, timestamp_difference
from tests.ingest.live.payloads import AAC_HEADER, Player, avc_header, inter, keyframe, make_stream, publisher, sound

VIDEO_MS, AUDIO_MS = 40, 20
SECONDS = 20
AT = 10_000
"""When the encoder's clock is set, in milliseconds of what is really filmed."""


class Shot(NamedTuple):
    """A frame: when it was really taken and sent, and the players' time of it."""

    kind: str
    taken: int
    at: int


Clock = Callable[[str, int], int]
"""The timestamp that an encoder gives to a frame of a kind that is taken at a millisecond."""


def play(clock: Clock, *, seconds: float = SECONDS, late: Callable[[int], int] = lambda _taken: 0) -> list[Shot]:
    """What a player gets of so many seconds of sound and picture. `late`: how late a frame arrives, ms."""
    return played(make_stream(), clock, seconds=seconds, late=late)


def played(
    stream: LiveStream, clock: Clock, *, seconds: float = SECONDS, late: Callable[[int], int] = lambda _taken: 0
) -> list[Shot]:
    stream.start(publisher(), 0.0)
    player = Player(stream)
    stream.video(0, avc_header(), 0.0)
    stream.audio(0, AAC_HEADER, 0.0)
    player.read()
    found = []
    for taken in range(0, round(seconds * 1000), AUDIO_MS):
        now = (taken + late(taken)) / 1000
        if taken % VIDEO_MS == 0:
            stream.video(clock("video", taken) % TIMESTAMP_WRAP, keyframe() if taken % 2000 == 0 else inter(), now)
            found += [Shot("video", taken, message.timestamp) for message in player.read()]
        stream.audio(clock("audio", taken) % TIMESTAMP_WRAP, sound(), now)
        found += [Shot("audio", taken, message.timestamp) for message in player.read()]
    return found


def steps(shots: list[Shot], kind: str) -> list[int]:
    times = [shot.at for shot in shots if shot.kind == kind]
    return [timestamp_difference(later, earlier) for earlier, later in pairwise(times)]


def skews(shots: list[Shot]) -> set[int]:
    """By how much picture is later than sound that was taken with it, ms."""
    times = {(shot.kind, shot.taken): shot.at for shot in shots}
    return {at - times["audio", taken] for (kind, taken), at in times.items() if kind == "video"}


def repairs(stream: LiveStream) -> int | None:
    stream.tick(SECONDS, 0.0)
    return snapshot(stream)["timestamp_repairs"]


@pytest.mark.parametrize("first", [0, 90_000, 0x00FFF000], ids=str)
def test_good_timestamps_are_relayed_as_they_are(first: int) -> None:
    """Over the 24 bits of a short timestamp too."""
    stream = make_stream()
    assert all(shot.at == first + shot.taken for shot in played(stream, lambda _kind, taken: first + taken))
    assert repairs(stream) == 0


@pytest.mark.parametrize(
    "first", [1 << 31, (1 << 31) - AT, TIMESTAMP_WRAP - AT, TIMESTAMP_WRAP - 66, 0x90000000], ids=hex
)
def test_a_clock_far_from_0_begins_at_0_and_goes_on_over_its_wraps(first: int) -> None:
    """Such as after 24 days, where a sign begins; at the wrap of 2^32; and below 0, as with frames out of order."""
    stream = make_stream()
    assert all(shot.at == shot.taken for shot in played(stream, lambda _kind, taken: first + taken))
    assert repairs(stream) == 0


@pytest.mark.parametrize(
    "jump", [2500, 3_600_000, 86_400_000 * 20, 1 << 31, -AT, -AT + 3, -2500, -5000, 0xFF000000], ids=str
)
def test_a_clock_that_was_set_is_put_back_for_both_tracks(jump: int) -> None:
    """Forward, back, and to 0 as of an encoder that was restarted within its connection."""
    stream = make_stream()
    shots = played(stream, lambda _kind, taken: 60_000 + taken + (jump if taken >= AT else 0))
    assert steps(shots, "video") == [VIDEO_MS] * (len(steps(shots, "video")))
    assert steps(shots, "audio") == [AUDIO_MS] * (len(steps(shots, "audio")))
    assert skews(shots) == {0}
    assert repairs(stream) == 2


@pytest.mark.parametrize("later", [100, 400, 900])
def test_the_second_track_follows_the_first_though_it_is_set_later(later: int) -> None:
    """Sound still comes by the old clock for a while, as encoders send what they had queued."""
    shots = play(lambda kind, taken: taken + (500_000 if taken >= AT + (later if kind == "audio" else 0) else 0))
    assert skews(shots) == {0}
    assert max(steps(shots, "video")) == VIDEO_MS
    assert max(steps(shots, "audio")) == AUDIO_MS


@pytest.mark.parametrize("jump", [-(1 << 24), 1 << 24, (1 << 24) - 700])
def test_24_bits_that_wrap_are_counted_on_exactly(jump: int) -> None:
    """However late the first message after it is. The reverse comes of differences that were cut to 24 bits."""
    first = (1 << 24) - AT if jump < 0 else 5000
    exact = jump % (1 << 24) == 0
    shots = play(
        lambda _kind, taken: first + taken + (jump if taken >= AT else 0), late=lambda taken: 600 * (taken >= AT)
    )
    assert skews(shots) == {0}
    if exact:
        assert all(shot.at == first + shot.taken for shot in shots)
    assert min(steps(shots, "video")) >= 0


@pytest.mark.parametrize("jump", [3000, -3000, 700_000])
@pytest.mark.parametrize("kind", ["audio", "video"])
def test_a_jump_of_one_track_alone_leaves_both_in_sync(kind: str, jump: int) -> None:
    stream = make_stream()
    shots = played(stream, lambda which, taken: 60_000 + taken + (jump if which == kind and taken >= AT else 0))
    assert max(abs(skew) for skew in skews(shots)) <= 2
    assert min(*steps(shots, "audio"), *steps(shots, "video")) >= 0
    assert repairs(stream) == 1


@pytest.mark.parametrize("wrong", [0, 5, 999_999, TIMESTAMP_WRAP - 1, 1 << 31])
def test_one_wrong_timestamp_is_mended_and_forgotten(wrong: int) -> None:
    stream = make_stream()
    shots = played(stream, lambda kind, taken: wrong if (kind, taken) == ("video", AT) else 60_000 + taken)
    assert [shot for shot in shots if abs(shot.at - 60_000 - shot.taken) > 1] == []
    assert repairs(stream) == 2, "there and back"


def test_a_small_step_back_is_held_until_time_is_there_again() -> None:
    stream = make_stream()
    shots = played(stream, lambda _kind, taken: 60_000 + taken - (300 if taken >= AT else 0))
    assert {1, VIDEO_MS} >= {step for step in steps(shots, "video") if not 1 < step < VIDEO_MS}
    assert min(*steps(shots, "video"), *steps(shots, "audio")) == 1, "no two frames of a track have the same time"
    assert shots[-1].at == 60_000 + shots[-1].taken - 300
    assert (repairs(stream) or 0) > 2


def test_frames_out_of_order_never_send_a_track_back() -> None:
    """Every third frame 100 ms too early, as of encoders that send presentation times."""
    shots = play(lambda kind, taken: 60_000 + taken - (100 if kind == "video" and taken % 120 == 0 else 0))
    assert min(steps(shots, "video")) >= 1
    assert max(abs(skew) for skew in skews(shots)) <= 100


def test_equal_timestamps_of_an_encoder_are_its_own() -> None:
    shots = play(lambda kind, taken: 60_000 + (taken if kind == "video" else taken // 60 * 60))
    assert set(steps(shots, "audio")) == {0, 60}


def test_pictures_by_their_presentation_times_have_times_of_their_own() -> None:
    """I P B B, each with the time at which it is shown."""
    shown = {0: 0, 40: 120, 80: 40, 120: 80}
    shots = play(lambda kind, taken: taken if kind == "audio" else taken // 160 * 160 + shown[taken % 160])
    assert min(steps(shots, "video")) >= 1


def test_a_clock_that_stays_behind_is_not_held_for_ever() -> None:
    """It steps back by 900 ms, and is too slow to get to where it was."""
    shots = play(lambda _kind, taken: taken if taken < AT else AT - 900 + (taken - AT) // 100)
    assert shots[-1].at > AT + (SECONDS * 1000 - AT - 2000) // 100
    assert min(*steps(shots, "audio"), *steps(shots, "video")) >= 0


def test_gaps_of_which_the_arrival_tells_are_kept() -> None:
    """Five seconds in which nothing was sent, and eight in which the network held everything up."""

    def taken_on(_kind: str, taken: int) -> int:
        return taken + (5000 if taken >= AT else 0)

    stream = make_stream()
    shots = played(stream, taken_on, late=lambda taken: 5000 if taken >= AT else 0)
    assert all(shot.at == taken_on("", shot.taken) for shot in shots)
    assert all(
        shot.at == shot.taken
        for shot in play(lambda _kind, taken: taken, late=lambda taken: max(0, 18_000 - taken) if taken >= AT else 0)
    )
    assert repairs(stream) == 0


def test_frames_that_the_encoder_left_out_are_a_gap() -> None:
    """Of one track, however fast what follows comes; the other track tells that the clock is right."""
    stream = make_stream()
    stream.start(publisher(), 0.0)
    player = Player(stream)
    found = []
    for taken in range(0, 60_000, AUDIO_MS):
        now = taken / 10_000
        stream.audio(taken, sound(), now)
        if taken % 6000 == 0:
            stream.video(taken, keyframe(), now)
        found += [message.timestamp for message in player.read() if message.type_id == 9]
    assert found == list(range(0, 60_000, 6000))
    assert repairs(stream) == 0


def test_a_track_alone_may_miss_frames_for_ten_seconds() -> None:
    stream = make_stream()
    stream.start(publisher(), 0.0)
    player = Player(stream)
    for timestamp, now in [(0, 0.0), (9000, 0.1), (18_000, 0.2), (500_000, 0.3), (500_040, 0.34)]:
        stream.video(timestamp, keyframe(), now)
    assert [message.timestamp for message in player.read()] == [0, 9000, 18_000, 18_100, 18_140]


def test_tracks_whose_clocks_begin_apart_are_put_side_by_side() -> None:
    shots = play(lambda kind, taken: taken + (3_000_000 if kind == "audio" else 0))
    assert max(abs(skew) for skew in skews(shots)) <= VIDEO_MS


@pytest.mark.parametrize("follows", [None, (70_000, -1.0)])
def test_sound_that_begins_behind_the_picture_stays_there(follows: tuple[int, float] | None) -> None:
    """As far apart as the publisher says; but what the former one's players have seen is over."""
    time = PlayersTime(60_000, follows=follows)
    video, audio = (time.track(kind, 0, is_main=True) for kind in ("video", "audio"))
    first = 71_000 if follows else 5000
    assert [video.at(5000 + at, at / 1000) for at in range(0, 6000, 500)] == list(range(first, first + 6000, 500))
    sounds = [audio.at(2000 + at, at / 1000) for at in range(0, 6000, 500)]
    held = [first + number if follows else 0 for number in range(12)]
    assert sounds == [max(first + at - 3000, least) for at, least in zip(range(0, 6000, 500), held, strict=True)]


def test_a_silence_that_is_longer_than_an_absence_may_be_is_cut_to_it() -> None:
    """60 s, whatever the encoder's clock did meanwhile."""
    for went_on in (True, False):
        stream = make_stream()
        stream.start(publisher(), 0.0)
        player = Player(stream)
        stream.audio(0, sound(), 0.0)
        stream.video(0, keyframe(), 0.0)
        player.read()
        for number in range(3):
            timestamp = number * 40 + (3_600_000 if went_on else 40)
            stream.video(timestamp, keyframe(), 3600 + number / 25)
            stream.audio(timestamp, sound(), 3600 + number / 25)
        found = [(message.type_id, message.timestamp) for message in player.read()]
        first = 60_000 if went_on else 40
        assert found == [(kind, first + 40 * number) for number in range(3) for kind in (9, 8)]


def test_headers_and_data_with_a_time_of_their_own_come_now() -> None:
    stream = make_stream()
    stream.start(publisher(), 0.0)
    player = Player(stream)
    stream.video(500_000, keyframe(), 0.0)
    for timestamp in (0, 499_000, 500_010, 3_000_000, TIMESTAMP_WRAP - 1):
        stream.video(timestamp, avc_header(), 0.0)
        stream.data(timestamp, "onCuePoint", [{}], b"cue", 0.0)
    stream.video(500_040, inter(), 0.04)
    expected = [500_000, *[500_000] * 4, 500_010, 500_010, *[500_000] * 4, 500_040]
    assert [message.timestamp for message in player.read()] == expected


def test_a_repair_leaves_late_players_and_the_group_of_pictures_in_the_same_time() -> None:
    stream = make_stream()
    stream.start(publisher(), 0.0)
    early = Player(stream)
    stream.video(0, avc_header(), 0.0)
    stream.video(60_000, keyframe(), 0.0)
    stream.video(0, inter(), 0.04)
    late = Player(stream)
    stream.video(40, inter(), 0.08)
    assert [message.timestamp for message in early.read()] == [0, 60_000, 60_040, 60_080]
    assert [message.timestamp for message in late.read()] == [60_000, 60_000, 60_040, 60_080]


def test_other_tracks_go_with_the_main_one() -> None:
    second_key = bytes.fromhex("960161766331 01 000000")
    stream = make_stream()
    stream.start(publisher(), 0.0)
    player = Player(stream)
    for number in range(6):
        timestamp = number * 40 + (700_000 if number >= 3 else 0)
        stream.video(timestamp, keyframe(), number / 25)
        stream.video(timestamp, second_key, number / 25)
    assert [message.timestamp for message in player.read()] == [at for at in range(0, 240, 40) for _ in range(2)]


@pytest.mark.parametrize("timestamp", [0, 5000])
def test_time_goes_on_across_the_wrap_from_one_publisher_to_the_next(timestamp: int) -> None:
    time = PlayersTime(60_000, follows=(TIMESTAMP_WRAP - 16, 1.0))
    video = time.track("video", 0, is_main=True)
    assert time.beside(9000) == time.latest == TIMESTAMP_WRAP - 16
    assert [video.at(timestamp, 1.1), video.at(timestamp + 33, 1.1)] == [84, 117]
    assert time.latest == 117


FRAMES = st.lists(
    st.tuples(
        st.sampled_from(["audio", "video"]),
        st.integers(0, TIMESTAMP_WRAP - 1)
        | st.integers(0, 5000)
        | st.sampled_from([1 << 24, 1 << 31, TIMESTAMP_WRAP - 1]),
        st.floats(0, 3),
        st.integers(0, 2),
    ),
    max_size=60,
)


@settings(max_examples=300)
@given(FRAMES)
def test_whatever_the_timestamps_no_track_goes_back_and_none_runs_away(
    frames: list[tuple[str, int, float, int]],
) -> None:
    time = PlayersTime(60_000)
    reached: dict[tuple[str, int], int] = {}
    now = 0.0
    for kind, timestamp, later, number in frames:
        now += later
        track = time.track("audio" if kind == "audio" else "video", number, is_main=number == 0)
        before = time.latest
        at = track.at(timestamp, now)
        assert timestamp_difference(at, reached.get((kind, number), at)) >= 0
        if number == 0 and reached.keys() & {("audio", 0), ("video", 0)}:
            assert timestamp_difference(at, before) <= 71_000
        reached[kind, number] = at


class Encoder(NamedTuple):
    """One whose clock is set by `step` amid its stream, ms; its sound has the timestamps of `lag` ms before."""

    step: int
    lag: int
    video_ms: int
    audio_ms: int
    jitter: list[int]
    """How late each frame comes, ms, over and over; none overtakes another."""
    audio_first: bool

    def sent(self) -> list[tuple[int, int, str]]:
        """When each frame is sent, whether it is the later of two, and what."""
        frames = [(sent, int(self.audio_first), "video") for sent in range(0, SET_AT + 8000, self.video_ms)]
        frames += [(sent, 1 - self.audio_first, "audio") for sent in range(0, SET_AT + 8000, self.audio_ms)]
        return sorted(frames)

    def timestamp(self, kind: str, sent: int) -> int:
        return 60_000 + sent - (self.lag if kind == "audio" else 0) + (self.step if sent >= SET_AT else 0)


SET_AT = 12_000
"""Later than SETTLING_S."""

ENCODERS = st.builds(
    Encoder,
    step=st.integers(-3000, 3000) | st.integers(-1300, -900) | st.integers(900, 1600),
    lag=st.integers(0, 500),
    video_ms=st.sampled_from([16, 33, 40]),
    audio_ms=st.sampled_from([21, 23, 33]),
    jitter=st.lists(st.integers(0, 30), min_size=1, max_size=7),
    audio_first=st.booleans(),
)


@example(Encoder(1100, 200, 40, 20, [0], audio_first=False))
@example(Encoder(991, 0, 40, 21, [0], audio_first=False))
@example(Encoder(-1030, 0, 40, 21, [0], audio_first=True))
@settings(max_examples=100)
@given(ENCODERS)
def test_sound_and_picture_stay_together_whatever_the_step(encoder: Encoder) -> None:
    """Of about a second too, which is much for one track and little for the other."""
    time = PlayersTime(60_000)
    tracks = {kind: time.track(kind, 0, is_main=True) for kind in ("audio", "video")}
    reached = {"audio": 0, "video": 0}
    ahead = {"audio": 0, "video": 0}
    arrived = 0.0
    for number, (sent, _, kind) in enumerate(encoder.sent()):
        arrived = max(arrived, (sent + encoder.jitter[number % len(encoder.jitter)]) / 1000)
        at = tracks[kind].at(encoder.timestamp(kind, sent), arrived)
        assert at >= reached[kind]
        reached[kind] = at
        ahead[kind] = at - sent
        if sent >= SET_AT + 6000:
            assert abs(ahead["video"] - ahead["audio"] - encoder.lag) <= max(encoder.video_ms, encoder.audio_ms)
