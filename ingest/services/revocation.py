"""What a node must end: read once a second, in one query, since the channel layer may drop or be absent."""

import uuid
from collections.abc import Collection
from datetime import datetime

from django.db.models import Q

from ingest.contracts import END_REASONS, EndReason
from ingest.models import Application, Session

ASKED_AT_ONCE = 1000
"""Sessions in one query: a node may have ten thousand players."""


def due(*, node: str, now: datetime) -> list[tuple[uuid.UUID, EndReason]]:
    """The node's open sessions that must end, each with its reason.

    An explicit request comes first; else a key that was revoked, disabled, deleted or has expired, or a stream or
    application that was disabled or deleted.
    """
    key_gone = Q(key__revoked_at__isnull=False) & (Q(key__grace_until__isnull=True) | Q(key__grace_until__lte=now))
    key_deleted = Q(
        kind=Session.Kind.PUBLISH,
        key__isnull=True,
        stream__application__publish_policy=Application.PublishPolicy.KEY,
    )
    rows = (
        Session.objects.filter(node__name=node, ended_at__isnull=True)
        .filter(
            ~Q(stop_requested="")
            | Q(key__enabled=False)
            | key_gone
            | Q(key__expires_at__lte=now)
            | key_deleted
            | Q(stream__isnull=True)
            | Q(stream__enabled=False)
            | Q(stream__application__enabled=False)
        )
        .order_by()
        .values_list("pk", "stop_requested")
    )
    return [(pk, asked if asked in END_REASONS else "key_revoked") for pk, asked in rows]


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
