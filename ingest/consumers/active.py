"""What this process knows beside the database: the sessions that are alive here, and since when it could write."""

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from ingest.contracts import StreamSnapshot
from ingest.history import get_history
from ingest.services.leases import Standing


@dataclass(slots=True)
class ActiveSession:
    """A session that this process accepted and that has not ended."""

    id: uuid.UUID
    kind: Literal["publish", "play"]
    app: str
    name: str
    stream: int | None
    """None: a session of the past whose stream was deleted."""
    key: int | None
    fencing: int
    node: str
    address: str
    encoder: str
    sequence: int = 0
    """Of its last event."""
    metadata_changes: int = 0


ACTIVE: dict[str, ActiveSession] = {}
"""By session id."""


DRAINING: set[str] = set()
"""The nodes of this process that take nothing new."""


def leased(node: str) -> list[tuple[uuid.UUID, int]]:
    """The leases that the node must renew: session and fencing number of each publisher."""
    return [
        (session.id, session.fencing)
        for session in ACTIVE.values()
        if session.kind == "publish" and session.node == node
    ]


def of_node(node: str) -> list[uuid.UUID]:
    return [session.id for session in ACTIVE.values() if session.node == node]


def of_snapshot(snapshot: StreamSnapshot) -> ActiveSession | None:
    """The publisher's session, unless it ended in the meantime."""
    return ACTIVE.get(snapshot["session_id"] or "")


def standing(session: uuid.UUID) -> Standing:
    """What this process knows of a session, whatever the database says yet."""
    if str(session) in ACTIVE:
        return "alive"
    return "ended" if get_history().is_ending(session) else "unknown"


BREAK = timedelta(seconds=5)
"""Without a write that succeeded: then the database was away. A node writes each 3 s, and in a shorter absence no lease
expires before its node has written again."""


class Reach:
    """Since when this process could write to the database without a break. Reads don't count: a standby takes them."""

    def __init__(self) -> None:
        self._since = self._last = datetime.min.replace(tzinfo=UTC)

    def reached(self, now: datetime) -> None:
        """Something was written."""
        self._since = self.since(now)
        self._last = now

    def since(self, now: datetime) -> datetime:
        return self._since if now - self._last <= BREAK else now


REACH = Reach()
