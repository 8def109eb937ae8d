"""How many connections there may be, in all and from one address; who found no room."""

import logging
from collections import Counter
from collections.abc import Callable

from ingest.addresses import unit_or_itself
from ingest.contracts import RefusedConnections
from ingest.server.config import ServerConfig

logger = logging.getLogger(__name__)

LOG_S = 10.0
"""That connections were refused is logged this often at most."""

ADDRESSES = 10
"""Refused addresses that one tick tells apart; a flood may have any number. The others count under no address."""


class Places:
    """Counts connections from their accept on, so that half-open handshakes have a bound too.

    One address is what `ingest.addresses.unit` takes for one: of IPv6 a network.
    """

    def __init__(self, config: ServerConfig, clock: Callable[[], float]) -> None:
        self._config = config
        self._clock = clock
        self._taken: Counter[str] = Counter()
        self._total = 0
        self.refused = 0
        """Since the start."""
        self._refused: dict[str, RefusedConnections] = {}
        """By what counts as one address; each with the first that came of it."""
        self._logged = float("-inf")

    def take(self, address: str) -> bool:
        """A place for one more connection of this address; False where there is none."""
        config, unit = self._config, unit_or_itself(address)
        if self._total >= config.max_connections:
            self._refuse(address, unit, f"{config.max_connections} in all (RTMPWEB_MAX_CONNECTIONS)")
            return False
        if self._taken[unit] >= config.max_connections_per_address:
            self._refuse(
                address,
                unit,
                f"{config.max_connections_per_address} from one address (RTMPWEB_MAX_CONNECTIONS_PER_ADDRESS)",
            )
            return False
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

    def _refuse(self, address: str, unit: str, limit: str) -> None:
        self.refused += 1
        known = unit in self._refused or len(self._refused) < ADDRESSES
        key, shown = (unit, address) if known else ("", "")
        self._refused.setdefault(key, {"address": shown, "count": 0})["count"] += 1
        now = self._clock()
        if now - self._logged >= LOG_S:
            self._logged = now
            logger.warning(
                "rtmp %s: connection closed, as there are %s. %d were refused since the start. Raise the limit, block "
                "the address, or take another node.",
                address,
                limit,
                self.refused,
            )
