"""The time of day as a media node goes by: by the machine's clock, but without its leaps.

A machine's clock is corrected now and then, and may be an hour off for a while: samples that lie in it would leave a
hole. So this one goes on with the time that passes. It follows the machine's slowly where that is off by seconds, and
takes a leap over only once it has lasted. What nodes compare with one another goes by `ingest.services.database`.
"""

import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

logger = logging.getLogger(__name__)

FOLLOWED_S: Final = 5.0
"""What the machine's clock is off by at most is followed,"""
RATE: Final = 0.05
"""by so much of the time that passes; more is a leap,"""
LASTS_S: Final = 60.0
"""which is taken over once it has lasted for so long."""
EACH_S: Final = 0.1
"""Between two readings of the machine's clock."""
READINGS: Final = 3
"""Of the clocks at first, of which the quickest counts."""

PASSING: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""The clock of the time that passes. While the machine sleeps, time passes, too."""


def passing() -> float:
    """Seconds that only grow."""
    return time.clock_gettime(PASSING)


class SteadyClock:
    """Any thread may ask."""

    def __init__(
        self,
        clock: Callable[[], float] = lambda: time.time(),
        passing: Callable[[], float] = passing,
    ) -> None:
        """`clock`: seconds since the epoch, as the machine has them. `passing`: seconds that only grow."""
        self._clock = clock
        self._passing = passing
        self._lock = threading.Lock()
        self._read_at = passing()
        self._offset = min(self._read() for _ in range(READINGS))[1]
        self._leap_s = 0.0
        self._leapt_at: float | None = None
        """When the machine's clock was first seen to be off by so much; None: it isn't."""

    def now(self) -> float:
        """Seconds since the epoch."""
        passed = self._passing()
        if passed - self._read_at >= EACH_S:
            with self._lock:
                self._follow(passed)
        return passed + self._offset

    def _read(self) -> tuple[float, float]:
        """How far the two clocks are apart, behind how long that took: in a long time they are wrong by that."""
        before = self._passing()
        offset = self._clock() - before
        return self._passing() - before, offset

    def _follow(self, passed: float) -> None:
        limit, self._read_at = RATE * max(passed - self._read_at, 0.0), passed
        off_s = self._read()[1] - self._offset
        if abs(off_s) <= FOLLOWED_S:
            self._offset += min(max(off_s, -limit), limit)
            if self._leapt_at is not None:
                self._leapt_at = None
                logger.warning("The machine's clock is back.")
        elif self._leapt_at is None or abs(off_s - self._leap_s) > FOLLOWED_S:
            self._leapt_at, self._leap_s = passed, off_s
            logger.warning(
                "The machine's clock has leapt by %+.0f s. The node goes on by its former time, and follows if that "
                "lasts for %.0f s: check its time service.",
                off_s,
                LASTS_S,
            )
        elif passed - self._leapt_at >= LASTS_S:
            self._leapt_at = None
            self._offset += off_s
            logger.warning("The node follows the machine's clock, which has leapt by %+.0f s.", off_s)


_clock = SteadyClock()


def now() -> float:
    """This process's: seconds since the epoch."""
    return _clock.now()


def utc_now() -> datetime:
    return datetime.fromtimestamp(now(), UTC)
