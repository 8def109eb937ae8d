"""How often something may happen: a token bucket, by which servers, live streams and consumers hold what a peer sends.

It is one number: when the bucket is full again (virtual scheduling, ITU-T I.371). `dashboard/throttle.py` counts in the
cache instead, as its failures are those of all web processes.
"""


class TokenBucket:
    """`per_second` in the long run, and `burst` of them at once. A silence earns no more than that."""

    __slots__ = ("_burst_s", "_full_at", "_total", "per_second")

    def __init__(self, per_second: float, burst: float, now: float = 0.0) -> None:
        self.per_second = per_second
        self._burst_s = burst / per_second
        self._full_at = now
        self._total = 0

    def wait_s(self, now: float) -> float:
        """Takes one: how long it has to wait for its turn."""
        self._full_at = max(self._full_at, now) + 1 / self.per_second
        return max(0.0, self._full_at - now - self._burst_s)

    def take(self, now: float) -> bool:
        """Takes one if it need not wait. Else nothing is taken."""
        full_at = max(self._full_at, now) + 1 / self.per_second
        if full_at - now > self._burst_s:
            return False
        self._full_at = full_at
        return True

    def is_passed(self, total: int, now: float) -> bool:
        """Whether a growing count has passed the rate. What is new may have come at any time."""
        self._full_at = max(self._full_at + (total - self._total) / self.per_second, now)
        self._total = total
        return self._full_at - now > self._burst_s
