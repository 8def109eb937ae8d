"""Time as a publisher's timestamps tell it: 32 bits of milliseconds that wrap, jump and go backwards."""

from collections import deque
from statistics import median
from typing import Final

from ingest.rtmp.timestamps import difference

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


class Timeline:
    """The frames of one track: their decoding times, and what is irregular in them."""

    __slots__ = (
        "_gap_ms",
        "_regular_ms",
        "_steps",
        "dts",
        "frames",
        "gaps",
        "jumped",
        "last",
        "missing",
        "nominal_fps",
        "regressions",
    )

    def __init__(self) -> None:
        self.frames = 0
        self.last = 0
        """Timestamp of the latest frame."""
        self.dts = 0
        """Milliseconds from the first frame to the latest, as the timestamps count them; not wrapped."""
        self.gaps = 0
        self.regressions = 0
        self.jumped = 0
        """Milliseconds of `dts` by which clocks were set, forwards less backwards."""
        self.missing = 0
        """Estimated from steps longer than a frame's."""
        self.nominal_fps: float | None = None
        self._gap_ms: float = GAP_MS
        self._regular_ms: float = GAP_MS
        """No step up to this is a gap or has frames missing."""
        self._steps: deque[int] = deque(maxlen=MEASURED_STEPS)

    def add(self, timestamp: int) -> None:
        """Another coded frame."""
        self.frames += 1
        if self.frames == 1:
            self.last = timestamp
            return
        step = timestamp - self.last
        if not 0 <= step <= self._regular_ms:
            step = difference(timestamp, self.last)
            self._judge(step)
        self.last = timestamp
        self.dts += step
        self._steps.append(step)

    @property
    def regular_ms(self) -> float:
        """No step from 0 up to this is irregular."""
        return self._regular_ms

    def advance(self, timestamp: int, steps: list[int]) -> None:
        """Several frames came, by regular steps; the last has this timestamp."""
        self.frames += len(steps)
        self.last = timestamp
        self.dts += sum(steps)
        self._steps.extend(steps)

    def _judge(self, step: int) -> None:
        if step < 0:
            self.regressions += 1
        elif step > self._gap_ms:
            self.gaps += 1
        if abs(step) > JUMP_MS:
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
            self._regular_ms = min(self._gap_ms, MISSING_FRAMES * 1000 / fps - 1)
