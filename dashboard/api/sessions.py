"""/sessions/{id}: what was measured and what happened, as JSON or CSV."""

import uuid
from dataclasses import asdict
from typing import Literal

from django.http import HttpRequest, StreamingHttpResponse
from django.shortcuts import get_object_or_404
from ninja import Field, Query, Router, Schema

from dashboard import exports
from dashboard.api.auth import allow
from dashboard.api.lists import ListOf, Paging, cut
from dashboard.api.samples import SamplesOut
from dashboard.api.schemas import EventOut, Problem
from dashboard.sessions import export, measured
from dashboard.sessions.search import sessions
from ingest.models import Session, StatusEvent
from ingest.roles import Ability

router = Router(tags=["history"])

Form = Literal["json", "csv"]


class SampleChoice(Schema):
    points: int = Field(600, ge=10, le=measured.MOST_POINTS, description="More are gathered into so many spans.")
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
    row = get_object_or_404(sessions(), pk=session_id)
    series = measured.samples(row, points=choice.points)
    if choice.format == "csv":
        return exports.csv_answer(f"samples-{row.pk}", *export.series_rows(series))
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
        rows = found[: export.MOST_ROWS].values_list(*export.EVENT_FIELDS).iterator(exports.CHUNK_ROWS)
        return exports.csv_answer(f"events-{owner.pk}", export.EVENT_FIELDS, rows)
    page, count = cut(found, choice)
    return {"items": page, "count": count}
