"""Slows down guessing of passwords: who failed too often waits.

Counted in Django's cache, so with several web processes the limit is shared only when the cache is (Redis).
"""

import hashlib
from dataclasses import dataclass

from django.core.cache import cache

WAIT_S = 300
"""A count is forgotten this long after its last failure."""


@dataclass(frozen=True, slots=True)
class Limit:
    """Failures within the wait after which the log-in is refused without looking at the password."""

    scope: str
    failures: int


PAIR = Limit("pair", 10)  # One address that guesses at one user.
ADDRESS = Limit("address", 60)  # One address that goes through many users.


@dataclass(frozen=True, slots=True)
class Tries:
    """One address's tries at one user."""

    address: str
    username: str

    def begin(self) -> bool:
        """Count a try before the password is looked at, so that parallel guesses count too. False: refuse it."""
        pair, address = self._add(PAIR), self._add(ADDRESS)
        return pair <= PAIR.failures and address <= ADDRESS.failures

    def succeeded(self) -> None:
        """Take the counted try back. The address's other failures stay, or one own account would reset them."""
        cache.delete(self._key(PAIR))
        if cache.get(self._key(ADDRESS), 0) > 0:
            cache.decr(self._key(ADDRESS))

    @property
    def left(self) -> int:
        """Tries that are left before the wait."""
        return max(0, min(limit.failures - int(cache.get(self._key(limit), 0)) for limit in (PAIR, ADDRESS)))

    def _add(self, limit: Limit) -> int:
        key = self._key(limit)
        if cache.add(key, 1, WAIT_S):
            return 1
        try:
            count = cache.incr(key)
        except ValueError:  # It expired in between.
            cache.set(key, 1, WAIT_S)
            return 1
        if count <= limit.failures:
            cache.touch(key, WAIT_S)
        return count

    def _key(self, limit: Limit) -> str:
        text = self.address if limit is ADDRESS else f"{self.address}\n{self.username.casefold()}"
        return f"login:{limit.scope}:{hashlib.sha256(text.encode()).hexdigest()}"
