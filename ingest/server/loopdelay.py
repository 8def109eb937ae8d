"""How late the event loop's timers fire: at least so long did what had arrived wait to be read."""

from bisect import bisect_left
from typing import Final

from ingest.contracts import LoopDelays

BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class LoopDelay:
    """Told of each delay, some a second."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_S) + 1)
        self._sum_s = 0.0
        self._most_s = 0.0

    def add(self, late_s: float) -> None:
        late_s = max(0.0, late_s)  # A timer may fire within the clock's resolution before its time.
        self._counts[bisect_left(BOUNDS_S, late_s)] += 1
        self._sum_s += late_s
        self._most_s = max(self._most_s, late_s)

    def take_most(self) -> float:
        """The largest since this was asked last, in seconds."""
        most_s, self._most_s = self._most_s, 0.0
        return most_s

    @property
    def figures(self) -> LoopDelays:
        """All since the start."""
        return {"bounds_s": list(BOUNDS_S), "counts": list(self._counts), "sum_s": round(self._sum_s, 6)}
