"""One session: the first questions, its timeline and charts, and what people say of it."""

import uuid
from typing import Any

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from dashboard import exports
from dashboard.actors import actor_of
from dashboard.notes import ActProblem
from dashboard.operating import NOTE_LENGTH
from dashboard.sessions import acts, export, measured, timeline
from dashboard.sessions.questions import Questions
from dashboard.sessions.rows import SessionRow
from dashboard.sessions.search import sessions
from dashboard.streams import Now
from dashboard.views.access import require_ability
from ingest.models import Session
from ingest.roles import Ability

PLAYERS_SHOWN = 20
POINTS = 600
MOST_POINTS = 2000
MOST_SPAN_S = 400 * 86400


@require_safe
@require_ability(Ability.VIEW)
def session(request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
    """In the order in which somebody asks who was called at night. Charts come after, by `data`."""
    row = get_object_or_404(sessions(), pk=pk)
    is_publish = row.kind == Session.Kind.PUBLISH
    questions = Questions(row) if is_publish else None
    players = _players(row) if is_publish else None
    target = measured.target_kbps(row)
    context: dict[str, Any] = {
        "session": row,
        "target": target,
        "row": SessionRow.of(row, Now.read()),
        "at": timezone.now(),
        "end": measured.ended(row),
        "questions": questions,
        "answers": questions.answers() if questions else [],
        "acknowledged": acts.acknowledgement(row),
        "recordings": row.recordings.select_related("application"),
        "players": players[:PLAYERS_SHOWN] if players is not None else [],
        "player_count": players.count() if players is not None else 0,
        "publisher": None if is_publish else _publisher(row),
        "note_length": NOTE_LENGTH,
        "boot": {
            "data": reverse("dashboard:session-data", args=[pk]),
            "open": row.ended_at is None,
            "publish": is_publish,
            "target": target,
            "media": _media(row),
            "metadata": row.summary.get("metadata") or {},
        },
    }
    return render(request, "dashboard/session.html", context)


@require_safe
@require_ability(Ability.VIEW)
def data(request: HttpRequest, pk: uuid.UUID) -> JsonResponse:
    """What the page draws: lanes, events and samples. `points` and `span` (seconds): for a comparison."""
    row = get_object_or_404(sessions(), pk=pk)
    series = measured.samples(row, points=_whole(request, "points", POINTS, MOST_POINTS), span_s=_span(request))
    events = timeline.events_of(row)
    answer = JsonResponse(
        {
            "lanes": timeline.lanes(row, events, series.gaps),
            "events": events,
            "at": series.at,
            "step_s": series.step_s,
            "values": {name: series.values.get(name, []) for name in DRAWN},
            "low": {name: series.low.get(name, []) for name in DRAWN},
            "high": {name: series.high.get(name, []) for name in DRAWN},
            "health": series.health,
            "gaps": series.gaps,
            "totals": vars(series.totals),
            "problems": series.problems,
        }
    )
    answer["Cache-Control"] = "no-store"
    return answer


DRAWN = (
    *("video_kbps", "audio_kbps", "fps", "keyframe_interval", "drift_dev", "rtt_ms", "players"),
    *("ts_gap", "ts_regress", "missing_frames_est"),
)


@require_safe
@require_ability(Ability.VIEW)
def samples(request: HttpRequest, pk: uuid.UUID) -> StreamingHttpResponse:
    """Its samples as CSV, as many as the reader gives whole."""
    row = get_object_or_404(sessions(), pk=pk)
    columns, rows = export.series_rows(measured.samples(row, points=measured.MOST_POINTS))
    return exports.csv_answer(f"samples-{pk}", columns, rows)


@require_POST
@require_ability(Ability.NOTE)
def note(request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
    """Writes a note at the session."""
    return _act(request, pk, acts.note, "The note is saved.")


@require_POST
@require_ability(Ability.NOTE)
def acknowledge(request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
    """Says that the session's end is known; the note goes with it."""
    return _act(request, pk, acts.acknowledge, "The end of the session is acknowledged.")


def _act(request: HttpRequest, pk: uuid.UUID, act: Any, done: str) -> HttpResponse:
    row = get_object_or_404(Session.objects.select_related("stream__application"), pk=pk)
    words, status = done, 200
    try:
        act(row, actor_of(request), request.POST.get("note", ""))
    except ActProblem as problem:
        words, status = str(problem), 409
    if request.accepts("text/html"):
        messages.add_message(request, messages.SUCCESS if status == 200 else messages.WARNING, words)
        return HttpResponseRedirect(reverse("dashboard:session", args=[pk]))
    return JsonResponse({"detail": words}, status=status)


def _players(row: Session) -> QuerySet[Session]:
    """Those that played the stream while it was published."""
    plays = sessions().filter(app=row.app, name=row.name, kind=Session.Kind.PLAY, started_at__lte=measured.ended(row))
    return plays.exclude(ended_at__lt=row.started_at)


def _publisher(row: Session) -> Session | None:
    """Who published the stream when the player came."""
    before = sessions().filter(app=row.app, name=row.name, kind=Session.Kind.PUBLISH)
    found = before.filter(started_at__lte=measured.ended(row)).first()
    return found if found and (found.ended_at is None or found.ended_at >= row.started_at) else None


def _media(row: Session) -> dict[str, Any]:
    own = {name: getattr(row, name) or None for name in ("video_codec", "audio_codec", "width", "height")}
    return own | (row.summary.get("media") or {})


def _whole(request: HttpRequest, name: str, usual: int, most: int) -> int:
    text = request.GET.get(name, "")
    return max(10, min(int(text), most)) if text.isascii() and text.isdigit() else usual


def _span(request: HttpRequest) -> float | None:
    return float(_whole(request, "span", 60, MOST_SPAN_S)) if "span" in request.GET else None
