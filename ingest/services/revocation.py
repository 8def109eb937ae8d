"""What a node must end: read once a second, in one query, since the channel layer may drop or be absent."""

import uuid
from collections.abc import Collection
from datetime import datetime
from typing import Any

from django.db.models import CharField, DateTimeField, Exists, OuterRef, Q, QuerySet

from ingest import trials
from ingest.contracts import END_REASONS, EndReason
from ingest.models import Application, Recording, Session, Stream
from ingest.services import encoderlogin
from ingest.services.prepared import Given, Prepared

ASKED_AT_ONCE = 1000
"""Sessions in one query: a node may have ten thousand players."""


def due(*, node: str, now: datetime) -> list[tuple[uuid.UUID, EndReason]]:
    """The node's open sessions that must end, each with its reason.

    An explicit request comes first, then a trial that has lasted for as long as one may; else a key or a log-in that
    was revoked, disabled, deleted or has expired, or a stream or application that was disabled or deleted. Who plays a
    recording that belongs to no stream may go on, and so may who waits for a name that anyone may come to publish,
    unless a stream of that name is disabled.
    """
    test_over = now - trials.MOST
    rows = _DUE.ask(node=node, now=now, test_over=test_over)
    return [(pk, _reason(asked, is_over=is_test and started <= test_over)) for pk, asked, is_test, started in rows]


def _due() -> "QuerySet[Session, Any]":
    now, test_over = Given("now", DateTimeField()), Given("test_over", DateTimeField())
    key_gone = Q(key__revoked_at__isnull=False) & (Q(key__grace_until__isnull=True) | Q(key__grace_until__lte=now))
    key_deleted = Q(
        kind=Session.Kind.PUBLISH,
        key__isnull=True,
        login__isnull=True,
        stream__application__publish_policy=Application.PublishPolicy.KEY,
    )
    of_no_stream = Recording.objects.filter(
        stream=None, name=OuterRef("name"), application__name=OuterRef("app"), application__enabled=True
    )
    of_open = Application.objects.filter(
        name=OuterRef("app"), enabled=True, publish_policy=Application.PublishPolicy.OPEN
    )
    disabled = Stream.objects.filter(name=OuterRef("name"), application__name=OuterRef("app"), enabled=False)
    awaits = Q(kind=Session.Kind.PLAY) & Exists(of_open) & ~Exists(disabled)
    return (
        Session.objects.filter(node__name=Given("node", CharField()), ended_at__isnull=True)
        .filter(
            ~Q(stop_requested="")
            | Q(key__enabled=False)
            | key_gone
            | Q(key__expires_at__lte=now)
            | key_deleted
            | encoderlogin.gone(now)
            | (Q(stream__isnull=True) & ~Exists(of_no_stream) & ~awaits)
            | Q(stream__enabled=False)
            | Q(stream__application__enabled=False)
            | Q(is_test=True, started_at__lte=test_over)
        )
        .order_by()
        .values_list("pk", "stop_requested", "is_test", "started_at")
    )


_DUE = Prepared(_due)


def _reason(asked: str, *, is_over: bool) -> EndReason:
    if asked in END_REASONS:
        return asked
    return "test_over" if is_over else "key_revoked"


def of_lost(*, sessions: Collection[uuid.UUID]) -> list[tuple[uuid.UUID, EndReason]]:
    """Why each of these sessions, which have lost their leases, ends: as was asked, such as replaced, or lease_lost."""
    asked = dict(Session.objects.filter(pk__in=sessions).order_by().values_list("pk", "stop_requested"))
    return [(pk, found if (found := asked.get(pk, "")) in END_REASONS else "lease_lost") for pk in sessions]


def of_ended(*, sessions: Collection[uuid.UUID]) -> list[tuple[uuid.UUID, EndReason]]:
    """Which of these sessions have ended in the database, as those of a node that was taken for dead."""
    asked = list(sessions)
    found: list[uuid.UUID] = []
    for start in range(0, len(asked), ASKED_AT_ONCE):
        some = asked[start : start + ASKED_AT_ONCE]
        found += Session.objects.filter(pk__in=some, ended_at__isnull=False).order_by().values_list("pk", flat=True)
    return [(pk, "lease_lost") for pk in found]
