"""Slows down guessing of passwords: who failed too often waits. And bounds what one account may do in an hour.

Counted in Django's cache (and so no `ingest.rate_limit`, which is one process's): with several web processes the limit
is shared only when the cache is (Redis). While Redis does not answer, each process counts for itself: an operator can
still log in and see why.
"""

import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from django.core.cache import BaseCache, caches

from dashboard.system.watch import get_watch
from ingest.addresses import unit_or_itself
from ingest.live_store import redis_errors

logger = logging.getLogger(__name__)

T = TypeVar("T")

WAIT_S = 300
HOUR_S = 3600


@dataclass(frozen=True, slots=True)
class Limit:
    """Failures within the wait after which the log-in is refused without looking at the password."""

    scope: str
    failures: int
    wait_s: int = WAIT_S
    """A count is forgotten this long after its last failure."""


PAIR = Limit("pair", 10)  # One address that guesses at one user.
ADDRESS = Limit("address", 60)  # One address that goes through many users.
ACCOUNT = Limit("account", 100, HOUR_S)  # Many addresses that guess at one user, none of which is known.
DEVICE = Limit("device", 10)  # One browser that is known for one user, wherever it is: its cookie may have been taken.


@dataclass(frozen=True, slots=True)
class Tries:
    """One address's tries at one user; of IPv6 its /64 counts as one. `device`: the browser's, if it is known."""

    address: str
    username: str
    device: str = ""

    def begin(self) -> Limit | None:
        """Count a try before the password is looked at, so that parallel guesses count too. The limit that refuses it.

        ACCOUNT does so where the browser is not known. Who comes from an address that is known may be let in all the
        same: else strangers could lock out the account's owner.
        """
        over = [limit for limit in (PAIR, ADDRESS) if self._add(limit) > limit.failures]
        if over:
            return over[0]
        if self.device and self._add(DEVICE) <= DEVICE.failures:
            return None
        return ACCOUNT if self._add(ACCOUNT) > ACCOUNT.failures else None

    def succeeded(self) -> None:
        """Take the counted try back. Other failures of the address and at the account stay, or one own account would
        reset the one, and its owner's log-in the other.
        """

        def take_back(cache: BaseCache) -> None:
            cache.delete_many([self._key(PAIR), self._key(DEVICE)])
            for limit in (ADDRESS,) if self.device else (ADDRESS, ACCOUNT):
                if cache.get(self._key(limit), 0) > 0:
                    cache.decr(self._key(limit))

        _counted(take_back)

    @property
    def left(self) -> int:
        """Tries that are left before the wait."""
        return max(0, min(limit.failures - self._count(limit) for limit in (PAIR, ADDRESS)))

    def _count(self, limit: Limit) -> int:
        return _counted(lambda cache: int(cache.get(self._key(limit), 0)))

    def _add(self, limit: Limit) -> int:
        key = self._key(limit)

        def add(cache: BaseCache) -> int:
            if cache.add(key, 1, limit.wait_s):
                return 1
            try:
                count = cache.incr(key)
            except ValueError:  # It expired in between.
                cache.set(key, 1, limit.wait_s)
                return 1
            if count <= limit.failures:
                cache.touch(key, limit.wait_s)
            return count

        return _counted(add)

    def _key(self, limit: Limit) -> str:
        address, user = unit_or_itself(self.address), self.username.casefold()
        counted = {PAIR: (address, user), ADDRESS: (address,), ACCOUNT: (user,), DEVICE: (self.device, user)}
        text = "\n".join(counted[limit])
        return f"login:{limit.scope}:{hashlib.sha256(text.encode()).hexdigest()}"


@dataclass(frozen=True, slots=True)
class Hourly:
    """What one account may do so many times in an hour, which begins with its first."""

    scope: str
    most: int

    def take(self, account: str, times: int) -> bool:
        """Counts them. False: they would be too many, and none is counted."""
        key = f"hourly:{self.scope}:{hashlib.sha256(account.encode()).hexdigest()}"

        def take(cache: BaseCache) -> bool:
            cache.add(key, 0, HOUR_S)
            try:
                if cache.incr(key, times) <= self.most:
                    return True
                cache.decr(key, times)
            except ValueError:  # It expired in between.
                return True
            return False

        return _counted(take)


MAILED = Hourly("mailed", 200)  # Addresses that somebody has reports sent to.


def _counted(work: Callable[[BaseCache], T]) -> T:
    """In the cache that web processes share or, while Redis does not answer, in this process's own."""
    if not get_watch().redis_is_down:
        try:
            return work(caches["default"])
        except redis_errors() as error:
            logger.warning("Tries are counted in this process alone: %s", type(error).__name__)
    return work(caches["local"])
