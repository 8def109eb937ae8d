"""Time as a publisher's timestamps tell it (RTMP 1.0, section 5.1), and the players' time that is made of it.

Timestamps have 32 bits of milliseconds that wrap, jump and go backwards. `Timeline` measures that; `PlayersTime`
repairs it before players get them.

Timestamps of encoders jump, go back, begin anew and wrap. Players get a time that never goes back on any track, and in
which sound and picture stay together. Each track is shifted by some milliseconds, all by the same as long as nothing
happens. What happens, in the order in which it is looked at:

1. A step of up to SMALL_MS is taken as it is. It is nearly every one, and the only one that the media path pays for.
2. Back by up to BACK_MS: the messages are held at the time that was reached, a millisecond later each, as decoders want
   no two at the same, until the timestamps are there again.
3. Forward by as much as passed between the messages' arrivals: a gap. So is a step by which the track gets no
   further than the other one is (sound for picture, and the reverse): frames are missing, and what follows is in place.
4. Anything else is a clock that was set. The track follows another that was set before, if that puts it where it can
   be: tracks are set one message after the other, and by the same. Else it counts on from a timestamp of 24 bits that
   wrapped, if it was that. Else it goes on after as much time as passed between the arrivals.

What 1 to 3 take for no clock that was set depends on where a track is and how long its frames are, so that one step of
the encoder's clock can be set on one track and taken on the other. Therefore a track whose clock is set tells the
others: for FOLLOWING_S each of their frames is asked first whether it fits better by what the first was set by.

Of an absence, `absence_ms` is the most that players see: after it, the time goes on. The same holds from one publisher
to the next. Where no player has seen a time yet, it is the publisher's own, but for one that begins so high (or below
0) that it would leave the 31 bits that players can be trusted with: that begins at 0."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from ingest.live.description import MediaKind
from ingest.rtmp.messages import TIMESTAMP_WRAP, timestamp_difference

GAP_MS: Final = 500
GAP_FRAMES: Final = 3
"""A step in time is a gap when it is longer than both."""

MISSING_FRAMES: Final = 1.5
"""A step of so many frames' time, or more, is one with frames missing."""

JUMP_MS: Final = 10_000
"""A longer step is a clock that was set, not frames that are missing: a publisher so silent would have been ended."""

MEASURED_STEPS: Final = 32
"""Steps whose median gives the frame rate where the metadata doesn't claim one."""
FEWEST_STEPS: Final = 3


@dataclass(eq=False, repr=False, slots=True)
class Timeline:
    """The frames of one track: their decoding times, and what is irregular in them."""

    frames: int = 0
    last: int = 0
    dts: int = 0
    """Milliseconds from the first frame to the latest, as the timestamps count them; not wrapped."""
    gaps: int = 0
    regressions: int = 0
    jumped: int = 0
    """Milliseconds of `dts` by which clocks were set, forwards less backwards. Forwards by less than JUMP_MS is
    taken for frames that are missing."""
    missing: int = 0
    """Estimated from steps longer than a frame's."""
    nominal_fps: float | None = None
    _gap_ms: float = GAP_MS
    regular_ms: float = GAP_MS
    """No step from 0 up to this is irregular: a gap, or with frames missing."""
    _steps: deque[int] = field(default_factory=lambda: deque(maxlen=MEASURED_STEPS))

    def add(self, timestamp: int) -> None:
        self.frames += 1
        if self.frames == 1:
            self.last = timestamp
            return
        step = timestamp - self.last
        if not 0 <= step <= self.regular_ms:
            step = timestamp_difference(timestamp, self.last)
            self._classify(step)
        self.last = timestamp
        self.dts += step
        self._steps.append(step)

    def advance(self, timestamp: int, steps: list[int]) -> None:
        """Several frames came, by regular steps; the last has this timestamp."""
        self.frames += len(steps)
        self.last = timestamp
        self.dts += sum(steps)
        self._steps.extend(steps)

    def _classify(self, step: int) -> None:
        if step < 0:
            self.regressions += 1
        elif step > self._gap_ms:
            self.gaps += 1
        if step > JUMP_MS or step < -GAP_MS:
            self.jumped += step
        fps = self.nominal_fps
        if fps is not None and step * fps >= MISSING_FRAMES * 1000 and step <= JUMP_MS:
            self.missing += round(step * fps / 1000) - 1

    def settle(self, claimed_fps: float | None) -> None:
        """Once a second: take the nominal frame rate from the metadata's claim, else from the steps themselves."""
        fps = claimed_fps
        if fps is None and len(self._steps) >= FEWEST_STEPS:
            step = median(self._steps)
            fps = 1000 / step if step > 0 else None
        if fps is not None and fps != self.nominal_fps:
            self.nominal_fps = fps
            self._gap_ms = max(GAP_MS, GAP_FRAMES * 1000 / fps)
            self.regular_ms = min(self._gap_ms, MISSING_FRAMES * 1000 / fps - 1)


SMALL_MS: Final = 1000
"""Also how far sound and picture may be apart by the order in which they are sent."""
BACK_MS: Final = 1000
"""More than encoders mistake the order of their frames by, and less than a player waits without complaint."""
SETTLING_S: Final = 10.0
"""For so long after its first frame a track may be behind by up to JUMP_MS, and is held: encoders begin to send sound
and picture at different times, and relays with the last keyframe."""
HELD_MS: Final = 1000
"""How much longer than it is behind a track is held: then its timestamps don't come back by themselves."""
FOLLOWING_S: Final = 5.0
"""For so long after one track's clock was set the others are asked whether theirs was set with it: encoders send what
they had queued by the former one."""
SMALLEST_STEP_MS: Final = 40
"""Between the last message of one publisher and the first of the next."""
FAR_MS: Final = 1 << 30
"""Half of what timestamps with a sign count, as FLV and its readers have them: 12 days."""
SHORT_WRAP: Final = 1 << 24
"""Where the timestamps wrap of encoders that know no extended timestamp: after 4 h 40 min."""
UNSTEADY: Final = -TIMESTAMP_WRAP
"""Stands for a latest timestamp from which no step is small."""

MASK: Final = TIMESTAMP_WRAP - 1


@dataclass(eq=False, repr=False, slots=True)
class TrackTime:
    """One track: `at` gives the players' time of each of its frames."""

    _time: "PlayersTime"
    kind: MediaKind
    shift: int = 0
    """What is added to its timestamps, ms."""
    arrived: float = 0.0
    latest: int = UNSTEADY
    """The latest timestamp; UNSTEADY: there is none, it is held, or another track was set just now."""
    _held_at: int = 0
    """The players' time that was reached, while the latest timestamp doesn't tell it."""
    _held_until: float | None = None
    _behind_ms: int = 0
    """How far it had gone back when it began to be held."""
    _settled_at: float | None = None
    _follows_by: int = 0
    """What another track was set by, ms, while this one was not; 0: nothing to follow."""
    _follows_until: float = 0.0

    def at(self, timestamp: int, now: float) -> int:
        """The players' time of a frame. The media path."""
        if 0 <= timestamp - self.latest <= SMALL_MS:
            self.latest = timestamp
            self.arrived = now
            return (timestamp + self.shift) & MASK
        return self._time.repair(self, timestamp, now)

    def advance(self, timestamp: int, now: float) -> None:
        """Several frames came, each a small step after the one before; the last has this timestamp."""
        self.latest = timestamp
        self.arrived = now

    @property
    def has_begun(self) -> bool:
        return self._settled_at is not None

    @property
    def is_held(self) -> bool:
        return self._held_until is not None

    @property
    def reached(self) -> int:
        return self._held_at if self.latest == UNSTEADY else (self.latest + self.shift) & MASK

    def begin(self, floor: int, now: float) -> None:
        """Its first frame came, and may not be before `floor`."""
        self._settled_at = now + SETTLING_S
        self._held_at = floor

    def may_wait(self, behind_ms: int, now: float) -> bool:
        """Whether it is held, as it is behind by so much."""
        if self._held_until is not None:
            return now < self._held_until
        return behind_ms <= (JUMP_MS if self._settled_at is not None and now < self._settled_at else BACK_MS)

    def hold(self, at: int, behind_ms: int, now: float) -> int:
        self._held_at = at
        if self._held_until is None:
            self._held_until = now + (behind_ms + HELD_MS) / 1000
            self._behind_ms = behind_ms
        self.latest = UNSTEADY
        self.arrived = now
        return at

    def pass_on(self, timestamp: int, now: float) -> int:
        self._held_until = None
        self.arrived = now
        at = (timestamp + self.shift) & MASK
        if self._follows_by:
            self._held_at = at
        else:
            self.latest = timestamp
        return at

    def may_follow(self, by: int, now: float) -> None:
        """Another track was set by so many milliseconds: this one's next frames tell whether it was, too."""
        self._held_at = self.reached
        self.latest = UNSTEADY
        self._follows_by, self._follows_until = by, now + FOLLOWING_S

    def has_followed(self, timestamp: int, away_ms: int, now: float) -> bool:
        """Whether this frame shows that it was set with the other track: its shift is the new one then."""
        if self._follows_by and now <= self._follows_until:
            # Of one that is held the timestamps come nearer all the time: the step by which it went back counts.
            step = -self._behind_ms if self.is_held else timestamp_difference(timestamp + self.shift, self.reached)
            followed = step + self._follows_by
            if (_misfit(followed, away_ms), followed) >= (_misfit(step, away_ms), step):
                return False
            self.shift += self._follows_by
            self._follows_by = 0
            return True
        self._follows_by = 0
        return False


class PlayersTime:
    def __init__(self, absence_ms: int, *, follows: tuple[int, float] | None = None) -> None:
        """`follows`: the players' time that was reached, and when, where they have one already."""
        self.repairs = 0
        """Times that a track's clock was found to be set, and messages that were held."""
        self._absence_ms = absence_ms
        self._follows = follows
        self._floor = follows[0] if follows else 0
        self._header_at = self._floor
        """What stands for the players' time before the first frame."""
        self._tracks: dict[tuple[MediaKind, int], TrackTime] = {}
        self._main: dict[MediaKind, TrackTime] = {}
        self._begun: list[TrackTime] = []
        """The main tracks that have sent frames."""

    def track(self, kind: MediaKind, number: int, *, is_main: bool = False) -> TrackTime:
        """The time of a track. Others are measured by the main one of each kind."""
        found = self._tracks.get((kind, number))
        if found is None:
            found = self._tracks[kind, number] = TrackTime(self, kind)
        if is_main:
            self._main[kind] = found
            self._begun = [track for track in self._main.values() if track.has_begun]
        return found

    @property
    def latest(self) -> int:
        """The players' time that was reached: of the latest frame, and before that of the headers."""
        times = [track.reached for track in self._begun]
        return max(times, key=lambda at: timestamp_difference(at, times[0])) if times else self._header_at

    @property
    def latest_arrival(self) -> float | None:
        """When it was reached; None before the first frame."""
        return max((track.arrived for track in self._begun), default=None)

    def beside(self, timestamp: int) -> int:
        """The players' time of what is no frame. Headers and data often carry one that makes no sense: then now."""
        latest = self.latest
        if self._begun:
            at = (timestamp + self._begun[0].shift) & MASK
            return at if 0 <= timestamp_difference(at, latest) <= JUMP_MS else latest
        if self._follows is None:
            # Who joins now is given the headers with the time that they came with.
            self._header_at = timestamp if timestamp < FAR_MS else 0
        return self._header_at

    # --- Rare ---

    def repair(self, track: TrackTime, timestamp: int, now: float) -> int:
        is_first = not track.has_begun
        if is_first:
            self._begin(track, timestamp, now)
        reached, away_ms = track.reached, self._away_ms(track.arrived, now)
        if track.has_followed(timestamp, away_ms, now):
            self.repairs += 1
        step = timestamp_difference(timestamp + track.shift, reached)
        least = int(track.is_held)
        if step >= least and (is_first or self._is_gap(track, step, away_ms, now)):
            return track.pass_on(timestamp, now)
        self.repairs += 1
        if step >= least or not track.may_wait(-step, now):
            self._set(track, self._found_shift(track, timestamp, reached, away_ms), now)
            step = timestamp_difference(timestamp + track.shift, reached)
        if step >= least:
            return track.pass_on(timestamp, now)
        return track.hold(reached if is_first else (reached + 1) & MASK, -step, now)

    def _begin(self, track: TrackTime, timestamp: int, now: float) -> None:
        """Its first frame: by the other tracks' shift, if that puts it near them."""
        other = next(self._others(track), None)
        if other is not None:
            expected = (other.reached + self._away_ms(other.arrived, now)) & MASK
            track.shift = other.shift
            if abs(timestamp_difference(timestamp + track.shift, expected)) > JUMP_MS:
                self.repairs += 1
                track.shift = expected - timestamp
        elif self._follows is not None:
            reached, arrived = self._follows
            self._floor = (reached + max(self._away_ms(arrived, now), SMALLEST_STEP_MS)) & MASK
            track.shift = self._floor - timestamp
        elif timestamp >= FAR_MS:
            track.shift = -timestamp
        track.arrived = now
        track.begin(self._floor, now)
        if self._main.get(track.kind) is track:
            self._begun.append(track)

    def _set(self, track: TrackTime, shift: int, now: float) -> None:
        """Its clock was set: so may the others' have been, by the same, unless it is one of them that it follows."""
        by = shift - track.shift
        track.shift = shift
        others = [other for other in self._tracks.values() if other is not track and other.has_begun]
        if all(other.shift != shift for other in others):
            for other in others:
                other.may_follow(by, now)

    def _others(self, track: TrackTime) -> Iterator[TrackTime]:
        return (other for other in self._begun if other is not track)

    def _away_ms(self, since: float, now: float) -> int:
        return min(round((now - since) * 1000), self._absence_ms)

    def _is_gap(self, track: TrackTime, step: int, away_ms: int, now: float) -> bool:
        if step <= away_ms + SMALL_MS:
            return True
        beside = next((other for other in self._others(track) if now - other.arrived <= JUMP_MS / 1000), None)
        if beside is None:
            # Nothing tells frames that are missing from a clock that was set. A publisher may be behind by so much.
            return step <= away_ms + JUMP_MS
        expected = (beside.reached + self._away_ms(beside.arrived, now)) & MASK
        return step <= timestamp_difference(expected, track.reached) + SMALL_MS

    def _found_shift(self, track: TrackTime, timestamp: int, reached: int, away_ms: int) -> int:
        others = ((other.shift, -BACK_MS) for other in self._others(track) if other.shift != track.shift)
        for shift, least in (*others, (track.shift + SHORT_WRAP, 0), (track.shift - SHORT_WRAP, 0)):
            if least <= timestamp_difference(timestamp + shift, reached) <= away_ms + SMALL_MS:
                return shift
        return reached + max(away_ms, 1) - timestamp


def _misfit(step: int, away_ms: int) -> int:
    """How far a step is from what may come after so long, ms: what was queued on the way comes at once."""
    return max(-step, step - away_ms, 0)
