"""What a node's application has pulled: the order to the server, from the sources in the database, and what the server
tells of it.

Of one that is always on, each origin offers itself while nobody publishes its stream, and the lease decides. One that
is on demand is pulled by the origin where players wait, or by any for those of an edge or a packager, until a while
after the last of them has left."""

import logging
from collections.abc import Sequence, Set
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings

from ingest import clean, clock, pages
from ingest.consumers import channel_layer, decisions
from ingest.consumers.active import ACTIVE, DRAINING, of_snapshot
from ingest.consumers.base import Send
from ingest.contracts import StreamSnapshot
from ingest.contracts.relays import NodePull, PullFigures, PullOrder
from ingest.services import database, pulls
from ingest.services.history_writer import get_history
from ingest.services.pulls import LIFETIME, Pull, PullRow
from ingest.services.relay_urls import without_secrets
from ingest.services.sealing import Unreadable

logger = logging.getLogger(__name__)

LEFT_S: Final = 10.0
"""After the last player: then what is pulled on demand ends."""

RENEWED: Final = timedelta(minutes=4)
"""Before a credential would expire: a try takes less."""


class Pulls:
    """One node's. Its round comes once a second."""

    def __init__(self, node: str, send: Send) -> None:
        self._node, self._send = node, send
        self._orders: dict[int, PullOrder] = {}
        """What the server was told last, by source."""
        self._rows: dict[int, Pull] = {}
        self._renew_at: dict[int, datetime] = {}
        self._players: dict[str, int] = {}
        """Of the streams that this node has, by path, as of the last tick,"""
        self._left_at: dict[int, float] = {}
        """and since when an ordered source has none, by the loop's kind of clock."""
        self._told: dict[int, tuple[str, ...]] = {}

    async def round(self, waiting: Set[str], now: float) -> None:
        """`waiting`: the paths that players wait for here; `now`: seconds of a clock that goes on."""
        rows: list[Pull] = []
        if self._node not in DRAINING:
            rows = await decisions.run(lambda: self._read(waiting), executor=decisions.READ)
        former, self._rows = self._rows, {row.pk: row for row in rows}
        wanted = [row for row in rows if self._is_wanted(row, now)]
        wanted.sort(key=lambda row: (row.pk not in self._orders, row.pk))
        orders: dict[int, PullOrder] = {}
        for row in wanted[: settings.MAX_PULLS]:
            order = self._order(row, former.get(row.pk))
            if order is not None:
                orders[row.pk] = order
        self._left_at = {pk: at for pk, at in self._left_at.items() if pk in orders}
        if orders != self._orders:
            self._orders = orders
            message: NodePull = {"type": "node.pull", "sources": list(orders.values())}
            await self._send(message)

    def _read(self, waiting: Set[str]) -> list[Pull]:
        return pulls.candidates(node=self._node, waiting=waiting, now=database.read_shared_clock())

    def _is_wanted(self, row: Pull, now: float) -> bool:
        if row.session:
            session = ACTIVE.get(row.session)
            if session is None:  # Just admitted, or just ended: it stays as it was.
                return row.pk in self._orders
            if session.pull != row.pk:
                return False  # An encoder publishes it.
        if row.when == "always" or not row.session or row.is_waited_for or self._players.get(row.path, 0) > 0:
            self._left_at.pop(row.pk, None)
            return True
        return now < self._left_at.setdefault(row.pk, now) + LEFT_S

    def _order(self, row: Pull, former: Pull | None) -> PullOrder | None:
        """The same as before, until its row is another (nothing is unsealed anew each second), or its credential is to
        be renewed: not while it is live, as an order that changes begins anew."""
        known, at = self._orders.get(row.pk), clock.utc_now()
        if known is not None and former is not None and (former.path, former.sealed) == (row.path, row.sealed):
            order = known.copy()
        else:
            try:
                order = row.order(known["credential"] if known is not None else "")
            except Unreadable as problem:
                self._note(row.pk, "stopped", "refused", "", str(problem))
                return None
        if known is None or (not row.session and at >= self._renew_at[row.pk]):
            order["credential"] = pulls.credential(row.pk, row.stream, now=at)
            self._renew_at[row.pk] = at + LIFETIME - RENEWED
        return order

    # --- What comes back ---

    def observe(self, streams: Sequence[StreamSnapshot], figures: Sequence[PullFigures]) -> None:
        """Of a tick."""
        self._players = {f"{each['app']}/{each['name']}": each["players"] for each in streams}
        for each in figures:
            self._note(each["source"], each["state"], each["failure"] or "", each["code"], each["description"])
        for snapshot in streams:
            session = of_snapshot(snapshot)
            if session is not None and session.pull is not None:
                snapshot["encoder"] = session.encoder

    def _note(self, source: int, state: str, failure: str, code: str, description: str) -> None:
        """A write for each change; what is said again is not written again."""
        row, order = self._rows.get(source), self._orders.get(source)
        said = (state, failure, code, description)
        if row is None or self._told.get(source) == said:
            return
        self._told[source] = said
        if order is not None:
            secrets = pulls.secrets_of(order)
            code, description = without_secrets(code, *secrets), without_secrets(description, *secrets)
        code, description = clean.text(code, 64), clean.text(description, 512)
        get_history().put(PullRow(source, self._node, clock.utc_now(), state, failure, code, description))
        level = logging.WARNING if failure else logging.INFO
        logger.log(level, "Pull of %s: %s. %s", row.path, state, description)
        told = {"type": "stream.relays", "text": pages.RELAYS}
        channel_layer.send_to_group(pages.stream_group(row.stream), lambda: told)
