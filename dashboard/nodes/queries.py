"""Media nodes as pages and API show them: every row of the database, with what those that run tell of themselves."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from django.http import Http404

from dashboard.streams.queries import Now
from dashboard.system.nodes import NODE_LATE
from ingest.contracts import NodeFigures
from ingest.models import Node
from ingest.services import database
from ingest.services import nodes as service

GRACES = ((0, "at once"), (60, "after 1 min"), (300, "after 5 min"), (900, "after 15 min"), (3600, "after 1 h"))
"""Seconds that what is live on a drained node may go on, as the page offers them."""

USUAL_GRACE_S = 60
MOST_GRACE_S = 24 * 3600


class State(StrEnum):
    UP = "up"
    DRAINING = "draining"  # It takes nothing new.
    MISSING = "missing"  # It should run, but gives no sign of life.
    DOWN = "down"  # It was taken for dead, and its sessions were ended.
    STOPPED = "stopped"  # It stopped in order, or was forgotten: nobody misses it.


ORDER = {State.MISSING: 0, State.DOWN: 1, State.DRAINING: 2, State.UP: 3, State.STOPPED: 4}


@dataclass(frozen=True, slots=True)
class NodeNow:
    """A node: its row, what it tells now (None: nothing), and its open sessions, as the database has them."""

    row: Node
    state: State
    figures: NodeFigures | None
    publishers: int
    players: int
    left_s: float | None
    """Of a drain: until what is still live there is ended."""

    @property
    def name(self) -> str:
        return self.row.name

    @property
    def since(self) -> datetime:
        """When it took its state, as far as that is known."""
        if self.state == State.UP:
            return self.row.started_at
        if self.state == State.DRAINING:
            return self.row.drain_requested_at or self.row.seen_at
        return self.row.stopped_at or self.row.seen_at

    @property
    def keeps_figures(self) -> bool:
        """It is a packager beside the embedded server, whose store is another process's memory."""
        return self.figures is None and self.row.role == Node.Role.PACKAGER and self.state == State.UP

    @property
    def can_drain(self) -> bool:
        return self.row.state != Node.State.DOWN and self.row.drain_requested_at is None

    @property
    def can_resume(self) -> bool:
        return self.row.state != Node.State.DOWN and self.row.drain_requested_at is not None

    @property
    def can_forget(self) -> bool:
        return self.state == State.DOWN


def node_of(name: str) -> NodeNow:
    """Raises Http404."""
    found = read(name=name)
    if not found:
        raise Http404(f"There is no node {name}.")
    return found[0]


def read(*, name: str | None = None) -> list[NodeNow]:
    """All nodes, or the one of that name; what needs somebody comes first."""
    rows = service.with_live_counts()
    if name is not None:
        rows = rows.filter(name=name)
    figures = {node["node"]: node for node in Now.read().nodes}
    now = database.read_shared_clock()
    found = []
    for row in rows:
        current, asked = figures.get(row.name), row.drain_requested_at
        left_s = service.Drain(asked, row.drain_grace_s).left_s(now) if asked else None
        state = _state(row, now - row.seen_at, current)
        found.append(NodeNow(row, state, current, row.publishers, row.players, left_s))
    return sorted(found, key=lambda node: (ORDER[node.state], node.name))


def relays(node: NodeNow) -> list[dict[str, Any]]:
    """What it fetches from other nodes (contracts.RelayFigures, with app and name): first what needs somebody."""
    found = [dict[str, Any](relay) for relay in node.figures.get("relays", [])] if node.figures is not None else []
    for relay in found:
        relay["app"], _, relay["name"] = relay["path"].partition("/")
    return sorted(found, key=lambda relay: (relay["state"] != "failing", relay["path"]))


def _state(row: Node, silent: timedelta, figures: NodeFigures | None) -> State:
    """One that tells its figures runs, whether or not the database takes what it writes."""
    if row.state == Node.State.DOWN:
        return State.STOPPED if row.stopped_at is not None else State.DOWN
    if silent > NODE_LATE and figures is None:
        return State.MISSING
    return State.DRAINING if row.state == Node.State.DRAINING or row.drain_requested_at else State.UP
