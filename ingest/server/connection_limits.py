"""How many connections there may be, in all and from one address, and how often something may happen in a second."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from ingest.addresses import LOCAL, unit_or_itself
from ingest.contracts import RefusedConnections
from ingest.log_records import Bound
from ingest.rate_limit import TokenBucket
from ingest.rtmp.limits import Limits

BURST_S: Final = 5.0
"""Over which rates of `Limits` are means: a network that stalled delivers some seconds at once."""

RATES: Final = (
    ("control_messages", "control messages and commands"),
    ("play_commands", "pauses, seeks and the like"),
    ("media_messages", "media messages"),
    ("small_chunks", "small chunks"),
)
"""What `ServerConnection` counts, and how it is called. The limit has the same name and `_per_s`."""


def peer_limits(limits: Limits, now: float) -> list[TokenBucket]:
    """Of one connection, in the order of RATES."""
    rates = [getattr(limits, f"{counted}_per_s") for counted, _ in RATES]
    return [TokenBucket(rate, rate * BURST_S, now) for rate in rates]


logger = logging.getLogger(__name__)

LOG_S = 10.0
"""That connections were refused is logged this often at most."""

ADDRESSES = 10
"""Refused addresses that one tick tells apart; a flood may have any number. The others count under no address."""


PORTION = 500
"""Addresses whose counts are told at once to a worker that comes later."""

ADVICE = "Raise the limit, block the address, or take another node."


@dataclass(eq=False, repr=False)
class ConnectionLimits:
    """Counts connections from their accept on, so that half-open handshakes have a bound too.

    One address is what `ingest.addresses.unit` takes for one: of IPv6 a network. What other processes on the same ports
    have counts as well, as of what they told last (a `Topic` of `ingest.siblings`). Who comes by a Unix socket doesn't.
    """

    most: int
    most_per_address: int
    scheme: str = "rtmp"
    setting: str = "RTMPWEB_MAX_CONNECTIONS"
    advice: str = ADVICE
    """For the log, as the two before. `setting`: the bound in all; `..._PER_ADDRESS` is the other."""
    _taken: Counter[str] = field(default_factory=Counter)
    _total: int = 0
    refused: int = 0
    _refused: dict[str, RefusedConnections] = field(default_factory=dict)
    """By what counts as one address; each with the first that came of it."""
    _lines: Bound = field(default_factory=lambda: Bound(1, LOG_S))
    tell: Callable[[Mapping[str, int]], None] | None = None
    """Tells the others what this process has of some addresses."""
    _elsewhere: Counter[str] = field(default_factory=Counter)
    """What the others have,"""
    _by_worker: dict[int, dict[str, int]] = field(default_factory=dict)
    """each of them,"""
    _total_elsewhere: int = 0
    """and all together."""

    def take(self, address: str, *, is_proxy: bool = False) -> bool:
        """A place for one more connection of this address; False where there is none. `is_proxy`: who is behind it is
        still to be heard (`move`).
        """
        if address == LOCAL:
            return True
        unit = unit_or_itself(address)
        if self._total + self._total_elsewhere >= self.most:
            self._refuse(address, unit, f"{self.most} in all ({self.setting})")
            return False
        if not is_proxy and self._is_full(address, unit):
            return False
        self._count(unit, 1)
        return True

    def move(self, peer: str, client: str) -> bool:
        """The place that was taken for a proxy is its client's, if there is one left for that address."""
        unit = unit_or_itself(client)
        if self._is_full(client, unit):
            return False
        self.free(peer)
        self._count(unit, 1)
        return True

    def free(self, address: str) -> None:
        if address != LOCAL:
            self._count(unit_or_itself(address), -1)

    def take_refused(self) -> list[RefusedConnections]:
        found, self._refused = self._refused, {}
        return list(found.values())

    # --- What the workers of one machine tell one another ---

    def told(self, worker: int, counts: Mapping[str, int]) -> None:
        """What another worker has of these addresses now."""
        known = self._by_worker.setdefault(worker, {})
        for unit, count in counts.items():
            more = count - known.pop(unit, 0)
            if count:
                known[unit] = count
            self._elsewhere[unit] += more
            self._total_elsewhere += more
            if not self._elsewhere[unit]:
                del self._elsewhere[unit]

    def gone(self, worker: int) -> None:
        self.told(worker, dict.fromkeys(self._by_worker.get(worker, ()), 0))
        self._by_worker.pop(worker, None)

    def everything(self) -> Iterator[Mapping[str, int]]:
        units = list(self._taken)
        for at in range(0, len(units), PORTION):
            yield {unit: self._taken[unit] for unit in units[at : at + PORTION]}

    def _count(self, unit: str, more: int) -> None:
        self._total += more
        self._taken[unit] += more
        count = self._taken[unit]
        if not count:
            del self._taken[unit]
        if self.tell:
            self.tell({unit: count})

    def _is_full(self, address: str, unit: str) -> bool:
        if self._taken[unit] + self._elsewhere[unit] < self.most_per_address:
            return False
        self._refuse(address, unit, f"{self.most_per_address} from one address ({self.setting}_PER_ADDRESS)")
        return True

    def _refuse(self, address: str, unit: str, limit: str) -> None:
        self.refused += 1
        known = unit in self._refused or len(self._refused) < ADDRESSES
        key, shown = (unit, address) if known else ("", "")
        self._refused.setdefault(key, {"address": shown, "count": 0})["count"] += 1
        if self._lines.take() is not None:
            logger.warning(
                "%s %s: connection closed, as there are %s. %d were refused since the start. %s",
                self.scheme,
                address,
                limit,
                self.refused,
                self.advice,
            )
