"""An encoder's clock that steps by any amount: sound and picture stay together, whichever of them comes first."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ingest.live.timeline import PlayersTime
from ingest.rtmp.messages import timestamp_difference

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
        for number, frame in enumerate(sorted(found)):
            arrived = max(arrived, frame.sent + self.delays[number % len(self.delays)])
            yield frame._replace(sent=arrived)

    def _clock(self, at: int) -> int:
        return FIRST + at + sum(self.steps[: at // EACH])


@pytest.mark.parametrize("lag", [200, -200], ids=["sound late", "picture late"])
@pytest.mark.parametrize("step", [1100, 975, -1030, -990])
def test_a_step_that_one_track_takes_and_the_other_does_not_leaves_them_together(step: int, lag: int) -> None:
    """Around the limits of a gap and of a small step back."""
    assert_together(Encoder([step], lag, 40, 20, True, [0]))


ENCODERS = st.builds(
    Encoder,
    st.lists(st.integers(-3000, 3000) | st.integers(900, 1200) | st.integers(-1200, -900), min_size=1, max_size=3),
    st.integers(-MOST_LAG, MOST_LAG),
    st.sampled_from([16, 33, 40]),
    st.sampled_from([20, 21, 23]),
    st.booleans(),
    st.just([0]) | st.lists(st.integers(0, 150), min_size=1, max_size=12),
)


@settings(max_examples=200, deadline=None)
@given(ENCODERS)
@example(Encoder([1100], 200, 40, 20, True, [0]))
@example(Encoder([0, -1021], 481, 40, 20, True, [0]))
def test_whatever_the_steps_sound_and_picture_stay_together(encoder: Encoder) -> None:
    assert_together(encoder)


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
