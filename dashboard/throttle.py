"""How often somebody may do something: counts in Django's cache.

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
from ingest.live_store import redis_errors

logger = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Limit:
    """`most` times within `wait_s`, which begin with the first time or, if it `extends`, anew with each one allowed."""

    scope: str
    most: int
    wait_s: int = 3600
    extends: bool = False

    def count(self, *subject: str) -> int:
        return _counted(lambda cache: int(cache.get(self._key(subject), 0)))

    def add(self, *subject: str, times: int = 1) -> int:
        """Counts them, though they be too many. The new count."""
        key = self._key(subject)

        def add(cache: BaseCache) -> int:
            if cache.add(key, times, self.wait_s):
                return times
            try:
                count = cache.incr(key, times)
            except ValueError:  # It expired in between.
                cache.set(key, times, self.wait_s)
                return times
            if self.extends and count <= self.most:
                cache.touch(key, self.wait_s)
            return count

        return _counted(add)

    def take(self, subject: str, times: int = 1) -> bool:
        """Counts them. False: they would be too many, and none is counted."""
        if self.add(subject, times=times) <= self.most:
            return True
        self.take_back(subject, times=times)
        return False

    def take_back(self, *subject: str, times: int = 1) -> None:
        key = self._key(subject)

        def take_back(cache: BaseCache) -> None:
            try:
                if cache.get(key, 0) >= times:
                    cache.decr(key, times)
            except ValueError:  # It expired in between.
                pass

        _counted(take_back)

    def forget(self, *subject: str) -> None:
        _counted(lambda cache: cache.delete(self._key(subject)))

    def _key(self, subject: tuple[str, ...]) -> str:
        return f"limit:{self.scope}:{hashlib.sha256(chr(10).join(subject).encode()).hexdigest()}"


MAILED = Limit("mailed", 200)  # Addresses that somebody has reports sent to.


def _counted(work: Callable[[BaseCache], T]) -> T:
    """In the cache that web processes share or, while Redis does not answer, in this process's own."""
    if not get_watch().redis_is_down:
        try:
            return work(caches["default"])
        except redis_errors() as error:
            logger.warning("Tries are counted in this process alone: %s", type(error).__name__)
    return work(caches["local"])
