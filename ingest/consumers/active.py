"""What this process knows beside the database: the sessions that are alive here, since when it could write, and what it
counted since it began.

The node tells its counts each second, for metrics. They are by words of our own, so that no peer can make many of them,
and begin at 0, as one that comes from nowhere is no increase to Prometheus."""

import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from ingest.contracts import END_REASONS, EndReason, Issue, MediaInfo, NodeCounts, StreamSnapshot
from ingest.models import Session
from ingest.services.history_writer import get_history
from ingest.services.keys import keyed_hash
from ingest.services.leases import Standing
from ingest.services.refusals import REASONS


def address_hash(address: str) -> str:
    """What the lake has of it: it tells players apart without naming them."""
    return keyed_hash("address", address)[:16]


@dataclass(slots=True)
class ActiveSession:
    """A session that this process accepted and that has not ended."""

    id: uuid.UUID
    kind: Literal["publish", "play"]
    app: str
    name: str
    stream: int | None
    """None: a session of the past whose stream was deleted; a player of a recording, or of a name, of no stream."""
    key: int | None
    fencing: int
    node: str
    address: str
    encoder: str
    is_test: bool = False
    """Published with a test-only key (ingest.models.names): its stream's pages, the lake and the leases don't know of
    it."""
    is_download: bool = False
    """Of a recording: by its own permission, whatever becomes of the stream."""
    protocol: str = ""
    """As Session.protocol."""
    pull: int | None = None
    """The PullSource that it publishes what is fetched of; None: an encoder's."""
    sequence: int = 0
    """Of its last event."""
    metadata_changes: int = 0
    silent_since: datetime | None = None
    """Without audio and video, as the last second told; by the shared clock."""
    issues: Sequence[Issue] = ()
    """The open health issues, as they were told last,"""
    media: MediaInfo = field(default_factory=MediaInfo)
    """and what it sent then,"""
    config: dict[str, str] = field(default_factory=dict)
    """in words."""
    config_changes: int = 0
    deliver: Callable[[dict[str, Any]], Awaitable[None]] | None = field(default=None, repr=False, compare=False)
    """Takes what the channel layer has for it."""
    address_hash: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.address_hash = address_hash(self.address)

    @property
    def path(self) -> str:
        return f"{self.app}/{self.name}"


ACTIVE: dict[str, ActiveSession] = {}
"""By session id."""


AWAITED: dict[str, int] = {}
"""By node of this process: how many streams players wait for there, as of its last tick."""
MOST_AWAITED = 5_000
"""Then nobody may wait for a further name that no stream has: each costs the node some 6 KB, and 10 us a second."""


DRAINING: set[str] = set()
"""The nodes of this process that take nothing new."""


def leased(node: str) -> list[tuple[uuid.UUID, int]]:
    """The leases that the node must renew: session and fencing number of each publisher."""
    return [
        (session.id, session.fencing)
        for session in ACTIVE.values()
        if session.kind == "publish" and session.node == node and not session.is_test
    ]


def published(node: str) -> dict[str, int]:
    """The streams of the node's publishers, by session."""
    return {
        key: session.stream
        for key, session in ACTIVE.items()
        if session.kind == "publish" and session.node == node and session.stream is not None
    }


def join_stream(app: str, name: str, stream: int) -> None:
    """The stream may be newer than those who wait for its name here: they play it."""
    for session in ACTIVE.values():
        if session.kind == "play" and session.stream is None and (session.app, session.name) == (app, name):
            session.stream = stream


def of_node(node: str) -> list[uuid.UUID]:
    return [session.id for session in ACTIVE.values() if session.node == node]


def has_any(node: str) -> bool:
    return any(session.node == node for session in ACTIVE.values())


def of_snapshot(snapshot: StreamSnapshot) -> ActiveSession | None:
    """The publisher's session, unless it ended in the meantime."""
    return ACTIVE.get(snapshot["session_id"] or "")


def must_end(session: uuid.UUID, reason: EndReason) -> bool:
    """Of one that the database has an end for: a download goes on without its stream, until somebody ends it."""
    known = ACTIVE.get(str(session))
    return known is None or not known.is_download or reason != "key_revoked"


def standing(session: uuid.UUID) -> Standing:
    """What this process knows of a session, whatever the database says yet."""
    if known := ACTIVE.get(str(session)):
        return known.silent_since or "alive"
    return "ended" if get_history().is_ending(session) else "unknown"


BREAK = timedelta(seconds=5)
"""Without a write that succeeded: then the database was away. A node writes each 3 s, and in a shorter absence no lease
expires before its node has written again."""


class Reach:
    """Since when this process could write to the database without a break. Reads don't count: a standby takes them.

    By the shared clock. A leap of that is a break: until all have written again, what they wrote tells nothing.
    """

    def __init__(self) -> None:
        self._since = self._last = datetime.fromtimestamp(0, UTC)

    def reached(self, now: datetime) -> None:
        self._since = self.since(now) if now > self._last - BREAK else now
        self._last = now

    def since(self, now: datetime) -> datetime:
        return self._since if now - self._last <= BREAK else now


REACH = Reach()

KINDS = tuple(Session.Kind.values)
RECORDINGS = ("started", "closed", "failed")
"""What may become of a recording's file."""


class Counts:
    """All of them begin at 0 with the process."""

    def __init__(self) -> None:
        self._started: dict[str, int] = dict.fromkeys(KINDS, 0)
        self._ended: dict[str, dict[str, int]] = {kind: dict.fromkeys(END_REASONS, 0) for kind in KINDS}
        self._refused: dict[str, int] = dict.fromkeys(REASONS, 0)
        self._recordings: dict[str, int] = dict.fromkeys(RECORDINGS, 0)

    def started(self, kind: str) -> None:
        _count(self._started, kind)

    def ended(self, kind: str, reason: str) -> None:
        _count(self._ended[kind], reason)

    def refused(self, reason: str, count: int) -> None:
        _count(self._refused, reason, count)

    def recorded(self, state: str) -> None:
        _count(self._recordings, state)

    @property
    def figures(self) -> NodeCounts:
        return {
            "sessions_started": dict(self._started),
            "sessions_ended": {kind: dict(reasons) for kind, reasons in self._ended.items()},
            "attempts_refused": dict(self._refused),
            "recordings": dict(self._recordings),
        }


def _count(counts: dict[str, int], word: str, number: int = 1) -> None:
    counts[word] = counts.get(word, 0) + number


COUNTS = Counts()
"""This process's, and so its node's."""
