"""/sessions, their events, and /attempts: what happened."""

import uuid
from typing import Literal

from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Field, Query, Router

from dashboard import history
from dashboard.api.auth import allow
from dashboard.api.lists import ListOf, Paging, Text, When, cut
from dashboard.api.schemas import AttemptOut, Problem, SessionOut
from dashboard.history import narrow
from dashboard.sessions import search
from dashboard.sessions.search import matching
from ingest.contracts import EndReason
from ingest.models import Session
from ingest.roles import Ability

router = Router(tags=["history"])

YEAR_S = 366 * 24 * 3600

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
    stream: Text | None = Field(None, description="A part of application/name.")
    kind: Literal["publish", "play"] | None = None
    address: Text | None = Field(None, description="A whole address, or the beginning of one.")
    encoder: Text | None = Field(None, description="A part of what it calls itself.")
    key: Text | None = Field(None, description="A part of a key's or log-in's label, or a key's first characters.")
    node: Text | None = None
    reason: EndReason | None = Field(None, description="Why it ended.")
    test: bool | None = Field(None, description="Published with a key that is for tests only.")
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


@router.get("/sessions", response=ListOf[SessionOut], auth=allow(Ability.VIEW), url_name="sessions")
def sessions(request: HttpRequest, filters: Query[SessionFilters]) -> dict[str, object]:
    """Publishing and playing, the last begun first."""
    page, count = cut(matching(filters.model_dump(exclude={"limit", "offset"})), filters)
    return {"items": page, "count": count}


@router.get(
    "/sessions/{session_id}", response={200: SessionOut, 404: Problem}, auth=allow(Ability.VIEW), url_name="session"
)
def session(request: HttpRequest, session_id: uuid.UUID) -> Session:
    """One session."""
    return get_object_or_404(search.sessions(), pk=session_id)


@router.get("/attempts", response=ListOf[AttemptOut], auth=allow(Ability.VIEW), url_name="attempts")
def attempts(request: HttpRequest, filters: Query[AttemptFilters]) -> dict[str, object]:
    """Refused connects, publishes and plays, and why; the latest first."""
    values = filters.model_dump(include=set(ATTEMPT_LOOKUPS))
    page, count = cut(narrow(history.attempts(), ATTEMPT_LOOKUPS, values), filters)
    return {"items": page, "count": count}
