"""Media nodes: up, seen, down, and what the death of one leaves to clear."""

import socket
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce

from ingest import clean
from ingest.contracts import Issue
from ingest.models import Node, Session
from ingest.services import sessions

LOST_AFTER = timedelta(seconds=30)
"""A node that was not seen for so long is down."""

RIVAL_AFTER = timedelta(seconds=10)
"""A node of the same name that was seen within this time may still run: it is seen every 3 s."""


def own_name() -> str:
    """This machine's node name."""
    return str(settings.NODE_NAME or socket.gethostname() or "node")


@dataclass(frozen=True, slots=True)
class Started:
    """A node that is up, and the sessions that it found open and ended.

    `rival`: how long ago its name was last seen, if that may have been another process.
    """

    node: Node
    left: list[Session]
    rival: timedelta | None


def started(
    *,
    name: str,
    address: str,
    now: datetime,
    url: str = "",
    since: datetime | None = None,
    alive: Collection[uuid.UUID] = (),
    process_since: datetime | None = None,
) -> Started:
    """The node is up. Sessions that its former process left open end as node_lost, when it was last seen.

    `since` is when the node's application began, `alive` are its own sessions: what is one of these or began later is
    left alone. A drain that was asked for before `process_since` (None: before now) was meant for a former process.
    """
    with transaction.atomic():
        former = Node.objects.filter(name=name).first()
        asked = former.drain_requested_at if former else None
        left = _close(name, former.seen_at if former else now, before=since or now, alive=alive)
        node, _ = Node.objects.update_or_create(
            name=name,
            defaults={
                "state": Node.State.UP,
                "address": address[:255],
                "url": url[:255],
                "started_at": now,
                "seen_at": now,
                "stopped_at": None,
                "drain_requested_at": asked if asked and process_since and asked >= process_since else None,
            },
        )
    if former is not None and former.state != Node.State.DOWN and now - former.seen_at < RIVAL_AFTER:
        return Started(node, left, now - former.seen_at)
    return Started(node, left, None)


def seen(*, name: str, now: datetime, issues: Sequence[Issue] = ()) -> bool:
    """The node lives, with these issues. True: it had been taken for dead, and its sessions had been ended."""
    Node.objects.filter(name=name).update(seen_at=now, issues=clean.jsonable(list(issues)))
    taken_for_dead = Node.objects.filter(name=name, state=Node.State.DOWN)
    back = taken_for_dead.filter(drain_requested_at__isnull=True).update(state=Node.State.UP, stopped_at=None)
    return bool(back + taken_for_dead.update(state=Node.State.DRAINING, stopped_at=None))


def draining(*, name: str, now: datetime) -> None:
    Node.objects.filter(name=name).update(seen_at=now, state=Node.State.DRAINING)


def resumed(*, name: str, now: datetime) -> None:
    Node.objects.filter(name=name).update(seen_at=now, state=Node.State.UP)


def stopped(*, name: str, now: datetime) -> None:
    Node.objects.filter(name=name).update(seen_at=now, stopped_at=now, state=Node.State.DOWN)


def with_what_is_live() -> "QuerySet[Any]":
    """All nodes, each with how many `publishers` and `players` are open there. What has ended is not read for it."""
    return Node.objects.annotate(publishers=_open(Session.Kind.PUBLISH), players=_open(Session.Kind.PLAY))


def _open(kind: Session.Kind) -> Coalesce:
    here = Session.objects.filter(node=OuterRef("pk"), kind=kind, ended_at__isnull=True).order_by().values("node")
    return Coalesce(Subquery(here.annotate(count=Count("pk")).values("count")), 0)


class NodeError(Exception):
    """The node can't do what was asked. The message is for the operator."""


@dataclass(frozen=True, slots=True)
class Drain:
    """What an operator asked of a node: to take nothing new, and to end what is left after a time."""

    requested_at: datetime
    grace_s: int

    def left_s(self, now: datetime) -> float:
        return max(0.0, self.grace_s - (now - self.requested_at).total_seconds())


def request_drain(*, name: str, grace_s: int, now: datetime) -> Node:
    """The node does so within a second; once more, and the time begins anew. Raises NodeError."""
    node = _running(name)
    node.drain_requested_at, node.drain_grace_s = now, grace_s
    node.save(update_fields=["drain_requested_at", "drain_grace_s"])
    return node


def cancel_drain(*, name: str) -> Node:
    """The node takes connections again within a second or two. Raises NodeError."""
    node = _running(name)
    node.drain_requested_at = None
    node.save(update_fields=["drain_requested_at"])
    return node


def drain(*, name: str) -> Drain | None:
    """What is asked of the node now."""
    asked = Node.objects.filter(name=name).values_list("drain_requested_at", "drain_grace_s").first()
    return Drain(asked[0], asked[1]) if asked and asked[0] else None


def forget(*, name: str) -> Node:
    """A node that is down is gone for good: it counts as stopped when it was last seen, and nobody misses it. History
    keeps its name; should it come back, it is as any other. Raises NodeError.
    """
    node = _known(name)
    if node.state != Node.State.DOWN:
        raise NodeError(
            f"The node {name} is {node.state}. Only one that is down can be forgotten: stop it first. One that died is "
            f"down after {LOST_AFTER.total_seconds():.0f} s, if another node runs."
        )
    node.stopped_at = node.stopped_at or node.seen_at
    node.save(update_fields=["stopped_at"])
    return node


def _known(name: str) -> Node:
    node = Node.objects.filter(name=name).first()
    if node is None:
        known = ", ".join(Node.objects.values_list("name", flat=True)) or "none yet"
        raise NodeError(f"There is no node {name}. Known nodes: {known}.")
    return node


def _running(name: str) -> Node:
    node = _known(name)
    if node.state == Node.State.DOWN:
        raise NodeError(f"The node {name} is down. A process that starts under this name takes connections at once.")
    return node


def sweep(*, now: datetime) -> list[Session]:
    """Marks nodes down that were not seen for LOST_AFTER and ends their sessions, which it returns.

    Called only by a node that has itself reached the database for as long, or an outage would look like a death.
    """
    ended: list[Session] = []
    for node in Node.objects.filter(seen_at__lt=now - LOST_AFTER).exclude(state=Node.State.DOWN):
        with transaction.atomic():
            if Node.objects.filter(pk=node.pk, seen_at=node.seen_at).update(state=Node.State.DOWN):
                ended += _close(node.name, node.seen_at, before=now, alive=())
    return ended


def _close(name: str, at: datetime, *, before: datetime, alive: Collection[uuid.UUID]) -> list[Session]:
    """Ends the node's sessions that began until `before`, and returns them."""
    left = Session.objects.filter(node__name=name, ended_at__isnull=True, started_at__lte=before)
    ended = [
        session
        for session in left.exclude(pk__in=list(alive)).values_list("pk", flat=True)
        if sessions.end(session=session, reason="node_lost", description="The node stopped unexpectedly.", at=at)
    ]
    return list(Session.objects.select_related("node").filter(pk__in=ended))
