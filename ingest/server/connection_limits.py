"""How many connections there may be, in all and from one address, and how often something may happen in a second."""

import logging
from collections import Counter
from collections.abc import Callable
from math import inf
from typing import Protocol

from ingest.addresses import unit_or_itself
from ingest.contracts import RefusedConnections


class RateLimit:
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


class Throttle:
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


logger = logging.getLogger(__name__)

LOG_S = 10.0
"""That connections were refused is logged this often at most."""

ADDRESSES = 10
"""Refused addresses that one tick tells apart; a flood may have any number. The others count under no address."""


ADVICE = "Raise the limit, block the address, or take another node."


class ConnectionBounds(Protocol):
    """As `ingest.server.config.ServerConfig` has them."""

    @property
    def max_connections(self) -> int: ...
    @property
    def max_connections_per_address(self) -> int: ...


class ConnectionLimits:
    """Counts connections from their accept on, so that half-open handshakes have a bound too.

    One address is what `ingest.addresses.unit` takes for one: of IPv6 a network.
    """

    def __init__(
        self,
        config: ConnectionBounds,
        clock: Callable[[], float],
        *,
        scheme: str = "rtmp",
        setting: str = "RTMPWEB_MAX_CONNECTIONS",
        advice: str = ADVICE,
    ) -> None:
        """`scheme`, `setting` (the bound in all; `..._PER_ADDRESS` is the other) and `advice` are for the log."""
        self._config = config
        self._clock = clock
        self._scheme = scheme
        self._setting = setting
        self._advice = advice
        self._taken: Counter[str] = Counter()
        self._total = 0
        self.refused = 0
        """Since the start."""
        self._refused: dict[str, RefusedConnections] = {}
        """By what counts as one address; each with the first that came of it."""
        self._logged = float("-inf")

    def take(self, address: str, *, is_proxy: bool = False) -> bool:
        """A place for one more connection of this address; False where there is none. `is_proxy`: who is behind it is
        still to be heard (`move`).
        """
        config, unit = self._config, unit_or_itself(address)
        if self._total >= config.max_connections:
            self._refuse(address, unit, f"{config.max_connections} in all ({self._setting})")
            return False
        if not is_proxy and self._is_full(address, unit):
            return False
        self._taken[unit] += 1
        self._total += 1
        return True

    def move(self, peer: str, client: str) -> bool:
        """The place that was taken for a proxy is its client's, if there is one left for that address."""
        unit = unit_or_itself(client)
        if self._is_full(client, unit):
            return False
        self.free(peer)
        self._taken[unit] += 1
        self._total += 1
        return True

    def free(self, address: str) -> None:
        unit = unit_or_itself(address)
        self._total -= 1
        self._taken[unit] -= 1
        if not self._taken[unit]:
            del self._taken[unit]

    def take_refused(self) -> list[RefusedConnections]:
        """Who was refused since this was asked last."""
        found, self._refused = self._refused, {}
        return list(found.values())

    def _is_full(self, address: str, unit: str) -> bool:
        most = self._config.max_connections_per_address
        if self._taken[unit] < most:
            return False
        self._refuse(address, unit, f"{most} from one address ({self._setting}_PER_ADDRESS)")
        return True

    def _refuse(self, address: str, unit: str, limit: str) -> None:
        self.refused += 1
        known = unit in self._refused or len(self._refused) < ADDRESSES
        key, shown = (unit, address) if known else ("", "")
        self._refused.setdefault(key, {"address": shown, "count": 0})["count"] += 1
        now = self._clock()
        if now - self._logged >= LOG_S:
            self._logged = now
            logger.warning(
                "%s %s: connection closed, as there are %s. %d were refused since the start. %s",
                self._scheme,
                address,
                limit,
                self.refused,
                self._advice,
            )
