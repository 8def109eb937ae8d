"""Media nodes: up, seen, down, and what the death of one leaves to clear."""

import socket
import uuid
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

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
    *, name: str, address: str, now: datetime, since: datetime | None = None, alive: Collection[uuid.UUID] = ()
) -> Started:
    """The node is up. Sessions that its former process left open end as node_lost, when it was last seen.

    `since` is when this process began, `alive` are its own sessions: what is one of these or began later is left alone.
    """
    with transaction.atomic():
        former = Node.objects.filter(name=name).first()
        left = _close(name, former.seen_at if former else now, before=since or now, alive=alive)
        node, _ = Node.objects.update_or_create(
            name=name,
            defaults={
                "state": Node.State.UP,
                "address": address[:255],
                "started_at": now,
                "seen_at": now,
                "stopped_at": None,
                "drain_requested_at": None,
            },
        )
    if former is not None and former.state != Node.State.DOWN and now - former.seen_at < RIVAL_AFTER:
        return Started(node, left, now - former.seen_at)
    return Started(node, left, None)


def seen(*, name: str, now: datetime) -> None:
    """The node lives; one that was taken for dead is up again."""
    Node.objects.filter(name=name).update(seen_at=now)
    Node.objects.filter(name=name, state=Node.State.DOWN).update(state=Node.State.UP)


def draining(*, name: str, now: datetime) -> None:
    Node.objects.filter(name=name).update(seen_at=now, state=Node.State.DRAINING)


def stopped(*, name: str, now: datetime) -> None:
    Node.objects.filter(name=name).update(seen_at=now, stopped_at=now, state=Node.State.DOWN)


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
