"""What the database remembers, as pages, API and WebSocket say it: events and attempts in plain data, and filters."""

from datetime import datetime
from typing import Any, TypeVar

from django.db.models import Model, QuerySet
from django.db.models.functions import Coalesce

from ingest.models import Attempt, Session, StatusEvent, Stream
from ingest.services.sessions import event_payload

EVENT_COUNT = 50
"""Events on a stream's page."""

EVENT_SESSIONS = 5
"""They are taken from this many of its latest publishers."""

Filters = dict[str, Any]
Row = TypeVar("Row", bound=Model)


def latest_events(stream_id: int) -> list[dict[str, Any]]:
    """The latest events of the stream's latest publishers, newest first."""
    sessions = Session.objects.filter(stream_id=stream_id, kind=Session.Kind.PUBLISH, is_test=False)
    recent = list(sessions.order_by("-started_at").values_list("pk", flat=True)[:EVENT_SESSIONS])
    events = StatusEvent.objects.filter(session__in=recent).order_by("-at", "-sequence")[:EVENT_COUNT]
    return [event_payload(event) for event in events]


def open_publisher(stream: Stream) -> Session | None:
    """The session that publishes the stream now."""
    sessions = stream.sessions.filter(kind=Session.Kind.PUBLISH, ended_at__isnull=True, is_test=False)
    return sessions.order_by("-started_at").first()


def attempts() -> QuerySet[Attempt]:
    """Newest first. `latest`: when the last of those came that a row stands for."""
    return Attempt.objects.annotate(latest=Coalesce("last_at", "at")).order_by("-at", "-pk")


def refused_publishers(since: datetime) -> QuerySet[Attempt]:
    """What came since then, the latest first; players' refusals are left out."""
    return narrow(attempts().exclude(action=Attempt.Action.PLAY), {"since": "latest__gte"}, {"since": since}).order_by(
        Coalesce("last_at", "at").desc()
    )


def narrow(rows: QuerySet[Row], lookups: dict[str, str], values: Filters) -> QuerySet[Row]:
    """Rows that match every given value; `lookups` says which field each name filters. None and "" filter nothing."""
    wanted = {lookups[name]: value for name, value in values.items() if value not in (None, "")}
    return rows.filter(**wanted)
