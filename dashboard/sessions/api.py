"""/sessions: what was published and played, what was measured and what happened, as JSON or CSV."""

import uuid
from dataclasses import asdict
from typing import Literal

from django.http import HttpRequest, StreamingHttpResponse
from django.shortcuts import get_object_or_404
from ninja import Field, Query, Router, Schema

from dashboard import lists
from dashboard.api_base import AttemptOut, EventOut, ListOf, Paging, Problem, SessionOut, Text, When, allow, cut
from dashboard.lists import narrow
from dashboard.sessions import queries as sessions_queries
from dashboard.sessions.queries import matching, session_rows
from dashboard.streams import measurements
from dashboard.streams.api import SamplesOut
from ingest.contracts import EndReason
from ingest.models import Session, StatusEvent
from ingest.services.roles import Ability

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
    return get_object_or_404(sessions_queries.session_rows(), pk=session_id)


@router.get("/attempts", response=ListOf[AttemptOut], auth=allow(Ability.VIEW), url_name="attempts")
def attempts(request: HttpRequest, filters: Query[AttemptFilters]) -> dict[str, object]:
    """Refused connects, publishes and plays, and why; the latest first."""
    values = filters.model_dump(include=set(ATTEMPT_LOOKUPS))
    page, count = cut(narrow(lists.attempts(), ATTEMPT_LOOKUPS, values), filters)
    return {"items": page, "count": count}


Form = Literal["json", "csv"]


class SampleChoice(Schema):
    points: int = Field(600, ge=10, le=measurements.MOST_POINTS, description="More are gathered into so many spans.")
    format: Form = "json"


class TotalsOut(Schema):
    """Of all samples, however many were gathered. Rates are audio and video."""

    samples: int
    measured_s: float
    mean_kbps: float | None
    p95_kbps: float | None
    warning_s: float
    bad_s: float
    missing_frames: int = Field(description="Estimated from timestamps.")
    most_players: int


class SessionSamplesOut(SamplesOut):
    totals: TotalsOut


class EventChoice(Paging):
    format: Form = "json"


@router.get(
    "/sessions/{session_id}/samples",
    response={200: SessionSamplesOut, 404: Problem},
    auth=allow(Ability.VIEW),
    url_name="session-samples",
)
def samples(
    request: HttpRequest, session_id: uuid.UUID, choice: Query[SampleChoice]
) -> SessionSamplesOut | StreamingHttpResponse:
    """What was measured of a publisher's session, one sample a second, newest included; players have none."""
    row = get_object_or_404(session_rows(), pk=session_id)
    series = measurements.samples(row, points=choice.points)
    if choice.format == "csv":
        return lists.csv_answer(f"samples-{row.pk}", *sessions_queries.series_rows(series))
    return SessionSamplesOut.model_validate(asdict(series))


@router.get(
    "/sessions/{session_id}/events",
    response={200: ListOf[EventOut], 404: Problem},
    auth=allow(Ability.VIEW),
    url_name="session-events",
)
def events(
    request: HttpRequest, session_id: uuid.UUID, choice: Query[EventChoice]
) -> dict[str, object] | StreamingHttpResponse:
    """What happened to a session, the latest first. CSV has all of them, without pages."""
    owner = get_object_or_404(Session, pk=session_id)
    found = StatusEvent.objects.filter(session=owner).order_by("-at", "-sequence")
    if choice.format == "csv":
        rows = (
            found[: sessions_queries.MOST_ROWS].values_list(*sessions_queries.EVENT_FIELDS).iterator(lists.CHUNK_ROWS)
        )
        return lists.csv_answer(f"events-{owner.pk}", sessions_queries.EVENT_FIELDS, rows)
    page, count = cut(found, choice)
    return {"items": page, "count": count}
