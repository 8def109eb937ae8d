"""/sessions, their events, and /attempts: what happened."""

import uuid
from datetime import timedelta
from typing import Literal

from django.db.models import QuerySet
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from django.utils import timezone
from ninja import Field, Query, Router

from dashboard import history
from dashboard.api.auth import allow
from dashboard.api.lists import ListOf, Paging, Text, When, cut
from dashboard.api.schemas import AttemptOut, EventOut, Problem, SessionOut
from dashboard.history import narrow
from dashboard.permissions import Ability
from ingest.models import Session, StatusEvent

router = Router(tags=["history"])

YEAR_S = 366 * 24 * 3600

SESSION_LOOKUPS = {
    "app": "app",
    "name": "name",
    "kind": "kind",
    "address": "address",
    "open": "ended_at__isnull",
    "since": "started_at__gte",
    "until": "started_at__lt",
}

ATTEMPT_LOOKUPS = {
    "app": "app",
    "name": "name",
    "action": "action",
    "reason": "reason",
    "address": "address",
    "since": "latest__gte",
    "until": "at__lt",
}


class SessionFilters(Paging):
    app: Text | None = None
    name: Text | None = None
    kind: Literal["publish", "play"] | None = None
    address: Text | None = None
    open: bool | None = Field(None, description="true: not ended yet; false: ended.")
    since: When | None = Field(None, description="Started at this time or later.")
    until: When | None = Field(None, description="Started before this time.")
    ended_within: int | None = Field(None, ge=1, le=YEAR_S, description="Ended in the last so many seconds.")


class AttemptFilters(Paging):
    app: Text | None = None
    name: Text | None = None
    action: Literal["connect", "publish", "play"] | None = None
    reason: Text | None = None
    address: Text | None = None
    since: When | None = Field(None, description="The last came at this time or later.")
    until: When | None = Field(None, description="The first came before this time.")


def _sessions() -> QuerySet[Session]:
    return Session.objects.select_related("node").order_by("-started_at", "-pk")


@router.get("/sessions", response=ListOf[SessionOut], auth=allow(Ability.VIEW), url_name="sessions")
def sessions(request: HttpRequest, filters: Query[SessionFilters]) -> dict[str, object]:
    """Publishing and playing, the last begun first."""
    values = filters.model_dump(include=set(SESSION_LOOKUPS))
    rows = narrow(_sessions(), SESSION_LOOKUPS, values)
    if filters.ended_within is not None:
        rows = rows.filter(ended_at__gte=timezone.now() - timedelta(seconds=filters.ended_within))
    page, count = cut(rows, filters)
    return {"items": page, "count": count}


@router.get(
    "/sessions/{session_id}", response={200: SessionOut, 404: Problem}, auth=allow(Ability.VIEW), url_name="session"
)
def session(request: HttpRequest, session_id: uuid.UUID) -> Session:
    """One session."""
    return get_object_or_404(_sessions(), pk=session_id)


@router.get(
    "/sessions/{session_id}/events",
    response={200: ListOf[EventOut], 404: Problem},
    auth=allow(Ability.VIEW),
    url_name="session-events",
)
def events(request: HttpRequest, session_id: uuid.UUID, paging: Query[Paging]) -> dict[str, object]:
    """What happened to a session, the latest first."""
    owner = get_object_or_404(Session, pk=session_id)
    page, count = cut(StatusEvent.objects.filter(session=owner).order_by("-sequence"), paging)
    return {"items": page, "count": count}


@router.get("/attempts", response=ListOf[AttemptOut], auth=allow(Ability.VIEW), url_name="attempts")
def attempts(request: HttpRequest, filters: Query[AttemptFilters]) -> dict[str, object]:
    """Refused connects, publishes and plays, and why; the latest first."""
    values = filters.model_dump(include=set(ATTEMPT_LOOKUPS))
    page, count = cut(narrow(history.attempts(), ATTEMPT_LOOKUPS, values), filters)
    return {"items": page, "count": count}
