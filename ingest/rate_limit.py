"""How often something may happen: a token bucket, by which servers, live streams and consumers hold what a peer sends.

`dashboard/throttle.py` counts in the cache instead, as its failures are those of all web processes.
"""


class TokenBucket:
    """`per_second` in the long run, and `burst` of them at once. A silence earns no more than that."""

    __slots__ = ("_at", "_burst", "_taken", "_total", "per_second")

    def __init__(self, per_second: float, burst: float, now: float = 0.0) -> None:
        self.per_second = per_second
        self._burst = burst
        self._taken = 0.0
        """What the bucket lacks: what was taken, less what time has filled up since."""
        self._at = now
        self._total = 0

    def wait_s(self, now: float) -> float:
        """Takes one: how long it has to wait for its turn."""
        self._fill(now)
        self._taken += 1
        return max(0.0, (self._taken - self._burst) / self.per_second)

    def take(self, now: float) -> bool:
        """Takes one if it need not wait. Else nothing is taken."""
        self._fill(now)
        if self._taken + 1 > self._burst:
            return False
        self._taken += 1
        return True

    def is_passed(self, total: int, now: float) -> bool:
        """Whether a growing count has passed the rate. What is new may have come at any time."""
        self._taken += total - self._total
        self._total = total
        self._fill(now)
        return self._taken > self._burst

    def _fill(self, now: float) -> None:
        self._taken = max(0.0, self._taken - self.per_second * (now - self._at))
        self._at = now
