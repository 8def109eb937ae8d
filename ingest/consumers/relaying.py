"""A node's own look, once a second, for the streams that are played there and published elsewhere: where they are now.

By the database; while that is away by what nodes last told the LiveStore, so that a publisher that moves is found all
the same. The server is told what is new to it: a stream that comes from where it is needs no further word."""

import asyncio
import logging
from collections.abc import Mapping, Sequence, Set
from math import inf

from django.db import Error as AnyDatabaseError

from ingest.consumers import decisions
from ingest.consumers.base import Send
from ingest.contracts import RelayFigures, RelayOrder
from ingest.live_store import get_livestore
from ingest.services import database, relays
from ingest.services.relays import Neighbours, Place

logger = logging.getLogger(__name__)

STORE_S = 2.0
"""For the LiveStore's answer."""
AGAIN_S = {"live": inf, "connecting": 5.0, "failing": relays.LIFETIME.total_seconds() / 3}
"""By a relay's state: after which it is told anew where the stream is, and given fresh tokens. A server forgets that as
a node between says that the stream has ended, though it may have lost it."""


class Relaying:
    def __init__(self, node: str, send: Send) -> None:
        self._node = node
        self._send = send
        self.waiting: Set[str] = frozenset()
        """The paths of streams that have players here and no publisher, as of the last tick,"""
        self._relayed: Mapping[str, RelayFigures] = {}
        """and of those that are relayed here."""
        self._ordered: dict[str, tuple[str, float]] = {}
        """The publisher's session of each relay as the server was told last, and when (the loop's time)."""
        self.around: Neighbours | None = None
        """As the database had it last."""

    def observe(self, waiting: Set[str], relayed: Sequence[RelayFigures]) -> None:
        self.waiting = waiting
        self._relayed = {each["path"]: each for each in relayed}
        if self._ordered:
            self._ordered = {path: told for path, told in self._ordered.items() if path in self._relayed}

    async def look(self) -> None:
        """Raises what the database does, once the server was told what else is known."""
        wanted, node = self.waiting | self._relayed.keys(), self._node
        if not wanted:
            return

        def read() -> tuple[Neighbours, dict[str, Place]]:
            now = database.read_shared_clock()
            return relays.neighbours(node=node), relays.places(paths=wanted, node=node, now=now)

        try:
            around, places = await decisions.run(read, executor=decisions.READ)
        except AnyDatabaseError:
            if self.around is not None:
                await self._tell(wanted, await self._shown(wanted), self.around, is_sure=False)
            raise
        self.around = around
        await self._tell(wanted, places, around, is_sure=True)

    async def _shown(self, wanted: Set[str]) -> dict[str, Place]:
        try:
            view = await asyncio.wait_for(get_livestore().aread(), STORE_S)
        except Exception as error:
            logger.debug("The live store does not say where streams are: %s", type(error).__name__)
            return {}
        streams = (*view.streams, *view.key_tests)
        return relays.shown_places(paths=wanted, node=self._node, streams=streams, figures=view.nodes)

    async def _tell(self, wanted: Set[str], places: Mapping[str, Place], around: Neighbours, *, is_sure: bool) -> None:
        """`is_sure`: what is not among the places is published nowhere else."""
        now = asyncio.get_running_loop().time()
        streams: dict[str, RelayOrder | None] = {}
        lost: dict[str, str] = {}
        for path in wanted:
            place, relay = places.get(path), self._relayed.get(path)
            if place is None:
                if relay is not None and is_sure:
                    streams[path] = None
                    self._ordered.pop(path, None)
            elif not self._is_known(place, relay, now):
                served = [each["node"] for each in relay["relayed_to"]] if relay is not None else ()
                found = relays.order(place, around, served=served)
                if found is not None:
                    streams[path] = found
                    self._ordered[path] = place.session, now
                elif relay is None or relay["state"] != "live":
                    lost[path] = relays.no_way(place)
        if streams:
            await self._send({"type": "node.relay", "streams": streams})
        if lost:
            await self._send({"type": "node.elsewhere", "streams": lost})

    def _is_known(self, place: Place, relay: RelayFigures | None, now: float) -> bool:
        session, told_at = self._ordered.get(place.path, ("", 0.0))
        if relay is None or session != place.session:
            return False
        return now - told_at < AGAIN_S[relay["state"]]
