"""/sessions: what was published and played, what was measured and what happened, as JSON or CSV."""

import uuid
from dataclasses import asdict
from datetime import datetime
from typing import Literal

from django.http import HttpRequest, StreamingHttpResponse
from django.shortcuts import get_object_or_404
from ninja import Field, Query, Router, Schema

from dashboard import lists
from dashboard.api_base import EventOut, ListOf, Paging, SamplesOut, Text, When, listed
from dashboard.sessions.queries import EVENT_FIELDS, MOST_ROWS, matching, series_rows, session_rows, session_values
from dashboard.streams import measurements
from ingest.contracts import EndReason
from ingest.models import Session, StatusEvent

router = Router(tags=["history"])

YEAR_S = 366 * 24 * 3600


class SessionOut(Schema):
    """One publishing or playing, from its acceptance to its end."""

    id: str
    kind: Literal["publish", "play"]
    is_test: bool = Field(description="Published with a key for tests only: no player got it.")
    app: str
    name: str
    protocol: Literal["", "rtmp", "rtmps", "flv", "hls", "download"] = Field(
        description="By which it was published or played; flv: by HTTP or WebSocket. Empty: an earlier version did."
    )
    address: str
    encoder: str
    node: str | None
    started_at: datetime
    ended_at: datetime | None
    end_reason: str = Field(description=f"Empty while it is open; else one of {', '.join(EndReason.__args__)}.")  # type: ignore[attr-defined]
    end_description: str
    video_codec: str
    audio_codec: str
    width: int | None
    height: int | None
    bytes_in: int | None = Field(
        description="As all totals: 0 while it is open; null where its server died, until its samples tell them."
    )
    bytes_out: int | None
    video_frames: int | None
    audio_frames: int | None
    keyframes: int | None
    join_ms: int | None = Field(
        description="Of a viewer by HLS, as its page told, once it has ended; null: it told nothing. From when it was "
        "to play to the first picture."
    )
    stalls: int | None = Field(description="Likewise: times that it waited for media since then,")
    stalled_ms: int | None = Field(description="how long it did,")
    watched_ms: int | None = Field(description="and how long it played.")


class SessionFilters(Paging):
    app: Text | None = None
    name: Text | None = None
    stream: Text | None = Field(None, description="A part of application/name.")
    kind: Literal["publish", "play"] | None = None
    protocol: Literal["rtmp", "rtmps", "flv", "hls", "download"] | None = None
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


@router.get("/sessions", response=ListOf[SessionOut], url_name="sessions")
def sessions(request: HttpRequest, filters: Query[SessionFilters]) -> dict[str, object]:
    """Publishing and playing, the last begun first."""
    return listed(matching(filters.model_dump(exclude={"limit", "offset"})), filters, item=session_values)


@router.get("/sessions/{session_id}", response=SessionOut)
def session(request: HttpRequest, session_id: uuid.UUID) -> dict[str, object]:
    """One session."""
    return session_values(get_object_or_404(session_rows(), pk=session_id))


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


@router.get("/sessions/{session_id}/samples", response=SessionSamplesOut, url_name="session-samples")
def samples(
    request: HttpRequest, session_id: uuid.UUID, choice: Query[SampleChoice]
) -> SessionSamplesOut | StreamingHttpResponse:
    """What was measured of a publisher's session, one sample a second, newest included; players have none."""
    row = get_object_or_404(session_rows(), pk=session_id)
    series = measurements.samples(row, points=choice.points)
    if choice.format == "csv":
        return lists.csv_answer(f"samples-{row.pk}", *series_rows(series))
    return SessionSamplesOut.model_validate(asdict(series))


@router.get("/sessions/{session_id}/events", response=ListOf[EventOut], url_name="session-events")
def events(
    request: HttpRequest, session_id: uuid.UUID, choice: Query[EventChoice]
) -> dict[str, object] | StreamingHttpResponse:
    """What happened to a session, the latest first. CSV has all of them, without pages."""
    owner = get_object_or_404(Session, pk=session_id)
    found = StatusEvent.objects.filter(session=owner).order_by("-at", "-sequence")
    if choice.format == "csv":
        rows = found[:MOST_ROWS].values_list(*EVENT_FIELDS).iterator(lists.CHUNK_ROWS)
        return lists.csv_answer(f"events-{owner.pk}", EVENT_FIELDS, rows)
    return listed(found, choice)
