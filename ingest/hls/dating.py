"""The time of day of media: when a stream's messages come tells what time of day its second 0 was.

No message comes before its time, so the one that came soonest tells it. A run begins with a burst of what is over,
whose newest came in time. Afterwards an encoder's clock and ours drift apart, which is followed, slowly."""

from dataclasses import dataclass
from typing import Final

FIND_S: Final = 1.0
"""From a run's first message on, until when the time of day is found out, unless it was told before."""
FOLLOW_S: Final = 10.0
"""Then it is looked at anew each so many seconds,"""
MOST_STEP_S: Final = 0.005
"""and changed by so much at most: clocks differ by less than 500 millionths."""
NEVER: Final = float("inf")


@dataclass(eq=False, slots=True)
class Run:
    """What one publisher sent without a break: within it media time and the time of day go on alike."""

    least: float = -NEVER
    """The anchor of the run before, as the time of day never goes back."""
    anchor: float | None = None
    """The time of day (seconds since the epoch) of second 0 of the packaging's time."""
    is_told: bool = False
    """Somebody knows it."""
    _soonest: float = NEVER
    _until: float = -NEVER
    _is_found: bool = False

    def arrived(self, time_s: float, wall: float) -> None:
        """A message of that time of the packaging has come."""
        if self.anchor is None:
            self._until = wall + FIND_S
        self._soonest = min(self._soonest, wall - time_s)
        if not self._is_found and (self.anchor is None or not self.is_told):
            self.anchor = max(self._soonest, self.least)
        if wall >= self._until and self.anchor is not None:
            step = self._soonest - self.anchor if self._is_found or self.is_told else 0.0
            self.anchor = max(self.anchor + min(max(step, -MOST_STEP_S), MOST_STEP_S), self.least)
            self._until, self._soonest, self._is_found = wall + FOLLOW_S, NEVER, True
