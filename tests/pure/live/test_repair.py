"""What players get for timestamps that jump, go back, wrap, step by any amount and begin anew: a time that goes on."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ingest.live import LiveStream
from ingest.live.snapshot import snapshot
from ingest.live.timeline import PlayersTime
from ingest.rtmp.messages import TIMESTAMP_WRAP, timestamp_difference
from tests.pure.live.payloads import AAC_HEADER, Player, avc_header, inter, keyframe, relay, sound, started

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


class Shots(list[Shot]):
    """In the order in which a player gets them, and how many timestamps were repaired."""

    repairs: int | None

    def steps(self, kind: str) -> list[int]:
        times = [shot.at for shot in self if shot.kind == kind]
        return [timestamp_difference(later, earlier) for earlier, later in pairwise(times)]

    def skews(self) -> set[int]:
        """By how much picture is later than sound that was taken with it, ms."""
        times = {(shot.kind, shot.taken): shot.at for shot in self}
        return {at - times["audio", taken] for (kind, taken), at in times.items() if kind == "video"}


def play(clock: Clock, *, late: Callable[[int], int] = lambda _taken: 0) -> Shots:
    """What a player gets of some seconds of sound and picture. `late`: how late a frame arrives, ms."""
    stream, player = played()
    relay(stream, (0, avc_header()), (0, AAC_HEADER))
    player.read()
    found = Shots()
    for taken in range(0, SECONDS * 1000, AUDIO_MS):
        now = (taken + late(taken)) / 1000
        if taken % VIDEO_MS == 0:
            stream.video(clock("video", taken) % TIMESTAMP_WRAP, keyframe() if taken % 2000 == 0 else inter(), now)
            found += [Shot("video", taken, message.timestamp) for message in player.read()]
        stream.audio(clock("audio", taken) % TIMESTAMP_WRAP, sound(), now)
        found += [Shot("audio", taken, message.timestamp) for message in player.read()]
    found.repairs = repairs(stream)
    return found


def played() -> tuple[LiveStream, Player]:
    stream = started()
    return stream, Player(stream)


def repairs(stream: LiveStream) -> int | None:
    stream.tick(SECONDS, 0.0)
    return snapshot(stream)["timestamp_repairs"]


@pytest.mark.parametrize(
    "first", [0, 90_000, 0x00FFF000, 1 << 31, (1 << 31) - AT, TIMESTAMP_WRAP - AT, TIMESTAMP_WRAP - 66, 0x90000000]
)
def test_good_timestamps_are_relayed_as_they_are_or_from_0_on_if_they_are_far_from_it(first: int) -> None:
    """Over the 24 bits of a short timestamp too. Far is after 24 days, where a sign begins, at the wrap and below 0."""
    shots = play(lambda _kind, taken: first + taken)
    begins = first if first < 1 << 30 else 0
    assert all(shot.at == begins + shot.taken for shot in shots)
    assert shots.repairs == 0


@pytest.mark.parametrize(
    "jump", [2500, 3_600_000, 86_400_000 * 20, 1 << 31, -AT, -AT + 3, -2500, -5000, 0xFF000000], ids=str
)
def test_a_clock_that_was_set_is_put_back_for_both_tracks(jump: int) -> None:
    """Forward, back, and to 0 as of an encoder that was restarted within its connection."""
    shots = play(lambda _kind, taken: 60_000 + taken + (jump if taken >= AT else 0))
    assert shots.steps("video") == [VIDEO_MS] * (len(shots.steps("video")))
    assert shots.steps("audio") == [AUDIO_MS] * (len(shots.steps("audio")))
    assert shots.skews() == {0}
    assert shots.repairs == 2


@pytest.mark.parametrize("later", [100, 400, 900])
def test_the_second_track_follows_the_first_though_it_is_set_later(later: int) -> None:
    """Sound still comes by the old clock for a while, as encoders send what they had queued."""
    shots = play(lambda kind, taken: taken + (500_000 if taken >= AT + (later if kind == "audio" else 0) else 0))
    assert shots.skews() == {0}
    assert max(shots.steps("video")) == VIDEO_MS
    assert max(shots.steps("audio")) == AUDIO_MS


@pytest.mark.parametrize("jump", [-(1 << 24), 1 << 24, (1 << 24) - 700])
def test_24_bits_that_wrap_are_counted_on_exactly(jump: int) -> None:
    """However late the first message after it is. The reverse comes of differences that were cut to 24 bits."""
    first = (1 << 24) - AT if jump < 0 else 5000
    exact = jump % (1 << 24) == 0
    shots = play(
        lambda _kind, taken: first + taken + (jump if taken >= AT else 0), late=lambda taken: 600 * (taken >= AT)
    )
    assert shots.skews() == {0}
    if exact:
        assert all(shot.at == first + shot.taken for shot in shots)
    assert min(shots.steps("video")) >= 0


@pytest.mark.parametrize("jump", [3000, -3000, 700_000])
@pytest.mark.parametrize("kind", ["audio", "video"])
def test_a_jump_of_one_track_alone_leaves_both_in_sync(kind: str, jump: int) -> None:
    shots = play(lambda which, taken: 60_000 + taken + (jump if which == kind and taken >= AT else 0))
    assert max(abs(skew) for skew in shots.skews()) <= 2
    assert min(*shots.steps("audio"), *shots.steps("video")) >= 0
    assert shots.repairs == 1


@pytest.mark.parametrize("wrong", [0, 5, 999_999, TIMESTAMP_WRAP - 1, 1 << 31])
def test_single_wrong_timestamp_is_repaired_without_lasting_effect(wrong: int) -> None:
    shots = play(lambda kind, taken: wrong if (kind, taken) == ("video", AT) else 60_000 + taken)
    assert [shot for shot in shots if abs(shot.at - 60_000 - shot.taken) > 1] == []
    assert shots.repairs == 2, "there and back"


def test_a_small_step_back_is_held_until_time_is_there_again() -> None:
    shots = play(lambda _kind, taken: 60_000 + taken - (300 if taken >= AT else 0))
    assert {1, VIDEO_MS} >= {step for step in shots.steps("video") if not 1 < step < VIDEO_MS}
    assert min(*shots.steps("video"), *shots.steps("audio")) == 1, "no two frames of a track have the same time"
    assert shots[-1].at == 60_000 + shots[-1].taken - 300
    assert (shots.repairs or 0) > 2


def test_frames_out_of_order_never_send_a_track_back() -> None:
    """Every third frame 100 ms too early, as of encoders that send presentation times."""
    shots = play(lambda kind, taken: 60_000 + taken - (100 if kind == "video" and taken % 120 == 0 else 0))
    assert min(shots.steps("video")) >= 1
    assert max(abs(skew) for skew in shots.skews()) <= 100


def test_equal_timestamps_of_an_encoder_are_kept() -> None:
    shots = play(lambda kind, taken: 60_000 + (taken if kind == "video" else taken // 60 * 60))
    assert set(shots.steps("audio")) == {0, 60}


def test_pictures_stamped_by_presentation_time_get_increasing_timestamps() -> None:
    """I P B B, each with the time at which it is shown."""
    shown = {0: 0, 40: 120, 80: 40, 120: 80}
    shots = play(lambda kind, taken: taken if kind == "audio" else taken // 160 * 160 + shown[taken % 160])
    assert min(shots.steps("video")) >= 1


def test_a_clock_that_stays_behind_is_not_held_for_ever() -> None:
    """It steps back by 900 ms, and is too slow to get to where it was."""
    shots = play(lambda _kind, taken: taken if taken < AT else AT - 900 + (taken - AT) // 100)
    assert shots[-1].at > AT + (SECONDS * 1000 - AT - 2000) // 100
    assert min(*shots.steps("audio"), *shots.steps("video")) >= 0


def test_gaps_of_which_the_arrival_tells_are_kept() -> None:
    """Five seconds in which nothing was sent, and eight in which the network held everything up."""

    def taken_on(_kind: str, taken: int) -> int:
        return taken + (5000 if taken >= AT else 0)

    shots = play(taken_on, late=lambda taken: 5000 if taken >= AT else 0)
    assert all(shot.at == taken_on("", shot.taken) for shot in shots)
    assert all(
        shot.at == shot.taken
        for shot in play(lambda _kind, taken: taken, late=lambda taken: max(0, 18_000 - taken) if taken >= AT else 0)
    )
    assert shots.repairs == 0


def test_frames_that_the_encoder_left_out_are_a_gap() -> None:
    """Of one track, however fast what follows comes; the other track tells that the clock is right."""
    stream, player = played()
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
    stream, player = played()
    for timestamp, now in [(0, 0.0), (9000, 0.1), (18_000, 0.2), (500_000, 0.3), (500_040, 0.34)]:
        stream.video(timestamp, keyframe(), now)
    assert [message.timestamp for message in player.read()] == [0, 9000, 18_000, 18_100, 18_140]


def test_tracks_whose_clocks_begin_apart_are_put_side_by_side() -> None:
    shots = play(lambda kind, taken: taken + (3_000_000 if kind == "audio" else 0))
    assert max(abs(skew) for skew in shots.skews()) <= VIDEO_MS


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
        stream = started()
        player = Player(stream)
        relay(stream, (0, sound()), (0, keyframe()))
        player.read()
        for number in range(3):
            timestamp = number * 40 + (3_600_000 if went_on else 40)
            relay(stream, (timestamp, keyframe()), (timestamp, sound()), now=3600 + number / 25)
        found = [(message.type_id, message.timestamp) for message in player.read()]
        first = 60_000 if went_on else 40
        assert found == [(kind, first + 40 * number) for number in range(3) for kind in (9, 8)]


def test_headers_and_data_with_stray_timestamps_get_the_current_time() -> None:
    stream, player = played()
    stream.video(500_000, keyframe(), 0.0)
    for timestamp in (0, 499_000, 500_010, 3_000_000, TIMESTAMP_WRAP - 1):
        stream.video(timestamp, avc_header(), 0.0)
        stream.data(timestamp, "onCuePoint", [{}], b"cue", 0.0)
    stream.video(500_040, inter(), 0.04)
    expected = [500_000, *[500_000] * 4, 500_010, 500_010, *[500_000] * 4, 500_040]
    assert [message.timestamp for message in player.read()] == expected


def test_a_repair_leaves_late_players_and_the_group_of_pictures_in_the_same_time() -> None:
    stream = started()
    early = Player(stream)
    relay(stream, (0, avc_header()), (60_000, keyframe()), now=0.0)
    stream.video(0, inter(), 0.04)
    late = Player(stream)
    stream.video(40, inter(), 0.08)
    assert [message.timestamp for message in early.read()] == [0, 60_000, 60_040, 60_080]
    assert [message.timestamp for message in late.read()] == [60_000, 60_000, 60_040, 60_080]


def test_other_tracks_go_with_the_main_one() -> None:
    second_key = bytes.fromhex("960161766331 01 000000")
    stream, player = played()
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


FIRST = 60_000
SETTLED = 6000
"""Milliseconds after a step: by then one track has long been able to follow the other."""
MOST_LAG = 500
EACH = 8000
"""From one step to the next, ms. The first is before the tracks are taken to be settled, the others after it."""


class Frame(NamedTuple):
    """Times in ms, of what is really filmed but for the timestamp."""

    sent: int
    kind: str
    taken: int
    timestamp: int


class Encoder(NamedTuple):
    steps: list[int]
    """By which its clock is set, every EACH ms."""
    lag: int
    """How much later sound is sent than the picture that was taken with it, ms; the reverse below 0."""
    video_ms: int
    audio_ms: int
    is_stamped_at_once: bool
    """Frames are stamped when they are taken, so that a track that lags steps later; else when they are sent."""
    delays: list[int]
    """How late what is sent arrives, ms, one message after the other and in order."""
    is_video_first: bool = False
    """Of what is sent at once."""

    def frames(self) -> Iterator[Frame]:
        """In the order in which they arrive, `sent` being when they do."""
        end = EACH * (len(self.steps) + 1)
        lags = {"video": max(-self.lag, 0), "audio": max(self.lag, 0)}
        found = [
            Frame(taken + lags[kind], kind, taken, self._clock(taken + (0 if self.is_stamped_at_once else lags[kind])))
            for kind, length in (("video", self.video_ms), ("audio", self.audio_ms))
            for taken in range(0, end, length)
        ]
        if not self.is_stamped_at_once:
            found = [frame._replace(timestamp=frame.timestamp - lags[frame.kind]) for frame in found]
        arrived = 0
        for number, frame in enumerate(sorted(found, key=self._place)):
            arrived = max(arrived, frame.sent + self.delays[number % len(self.delays)])
            yield frame._replace(sent=arrived)

    def _place(self, frame: Frame) -> tuple[int, bool]:
        return frame.sent, (frame.kind == "video") is not self.is_video_first

    def _clock(self, at: int) -> int:
        return FIRST + at + sum(self.steps[: at // EACH])


@pytest.mark.parametrize("lag", [200, -200], ids=["sound late", "picture late"])
@pytest.mark.parametrize("step", [1100, 975, -1030, -990])
def test_clock_step_near_the_limits_keeps_audio_and_video_together(step: int, lag: int) -> None:
    """Around the limits of a gap and of a small step back."""
    assert_together(Encoder([step], lag, 40, 20, True, [0]))


ENCODERS = st.builds(
    Encoder,
    st.lists(st.integers(-3000, 3000) | st.integers(900, 1200) | st.integers(-1200, -900), min_size=1, max_size=3),
    st.integers(-MOST_LAG, MOST_LAG),
    st.sampled_from([16, 33, 40]),
    st.sampled_from([20, 21, 23]),
    st.just(True),  # The test has both.
    st.just([0]) | st.lists(st.integers(0, 150), min_size=1, max_size=12),
    st.booleans(),
)


@pytest.mark.parametrize("is_stamped_at_once", [True, False])
@settings(max_examples=125)
@given(encoder=ENCODERS)
@example(encoder=Encoder([1100], 200, 40, 20, True, [0]))
@example(encoder=Encoder([0, -1021], 481, 40, 20, True, [0]))
@example(encoder=Encoder([0, 1100], 200, 40, 20, False, [0], is_video_first=True))
@example(encoder=Encoder([0, 991], 0, 40, 21, False, [0], is_video_first=True))
@example(encoder=Encoder([0, -1030], 0, 40, 21, False, [0]))
def test_whatever_the_steps_sound_and_picture_stay_together(encoder: Encoder, is_stamped_at_once: bool) -> None:
    assert_together(encoder._replace(is_stamped_at_once=is_stamped_at_once))


def assert_together(encoder: Encoder) -> None:
    time = PlayersTime(60_000)
    tracks = {"video": time.track("video", 0, is_main=True), "audio": time.track("audio", 0, is_main=True)}
    reached: dict[str, list[int]] = {"video": [], "audio": []}
    late: dict[tuple[str, int], set[int]] = defaultdict(set)
    for frame in encoder.frames():
        at = tracks[frame.kind].at(frame.timestamp, frame.sent / 1000)
        reached[frame.kind].append(at)
        step, since = divmod(frame.taken, EACH)
        if SETTLED <= since < EACH - MOST_LAG:
            late[frame.kind, step].add(timestamp_difference(at, FIRST + frame.taken))
    assert all(
        timestamp_difference(later, former) >= 0 for times in reached.values() for former, later in pairwise(times)
    )
    for step in range(len(encoder.steps) + 1):
        both = late["video", step] | late["audio", step]
        assert max(both) - min(both) <= max(encoder.video_ms, encoder.audio_ms), f"after {step} steps"


def test_a_further_track_that_lags_goes_with_the_main_ones() -> None:
    """Such as a second picture, sent 300 ms after the first."""
    time = PlayersTime(60_000)
    main, further = time.track("video", 0, is_main=True), time.track("video", 1)
    found: dict[int, set[int]] = defaultdict(set)
    for sent in range(0, 20_000, 40):
        for track, taken in ((main, sent), (further, sent - 300)):
            if taken >= 0:
                found[taken].add(track.at(taken + (1100 if taken >= 12_000 else 0), sent / 1000))
    assert all(len(times) == 1 for taken, times in found.items() if taken <= 19_000)
