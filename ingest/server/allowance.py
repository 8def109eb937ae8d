"""How often something may happen in a second, with some leave for what comes at once."""

from math import inf


class Allowance:
    """Holds a growing total to `per_second`. What comes in `burst_s` seconds at that rate may come at once."""

    __slots__ = ("_at", "_most", "_over", "_total", "per_second")

    def __init__(self, per_second: int, burst_s: float, now: float) -> None:
        self.per_second = per_second
        self._most = per_second * burst_s
        self._total = 0
        self._over = 0.0
        """What came beyond the rate, less what time has made good since."""
        self._at = now

    def is_passed(self, total: int, now: float) -> bool:
        """`total`: how often it happened so far."""
        self._over = max(0.0, self._over + total - self._total - self.per_second * (now - self._at))
        self._total, self._at = total, now
        return self._over > self._most


class Turns:
    """Spreads what goes on for long: `at_once` may come at any time, and then `per_second`."""

    __slots__ = ("_interval_s", "_leave_s", "_next")

    def __init__(self, per_second: float, at_once: int) -> None:
        self._interval_s = 1 / per_second
        self._leave_s = (at_once - 1) * self._interval_s
        self._next = -inf

    def wait_s(self, now: float) -> float:
        """One more comes: how long it has to wait for its turn."""
        turn = max(self._next, now - self._leave_s)
        self._next = turn + self._interval_s
        return max(0.0, turn - now)

    def has_one(self, now: float) -> bool:
        """Whether one more needs not wait. Else it doesn't come."""
        return self._next <= now and not self.wait_s(now)
