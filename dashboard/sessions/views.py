"""Sessions: the list with its search, what it finds as a file, one session with the first questions, its timeline and
charts, and two of them side by side: their facts, and where they differ."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, render
from django.template.defaultfilters import filesizeformat
from django.urls import reverse
from django.utils import timezone

from dashboard import lists
from dashboard.access import actor_of, post_view, request_abilities, safe_view
from dashboard.lists import answer_action
from dashboard.sessions import queries as sessions_queries
from dashboard.sessions.diagnosis import Diagnosis
from dashboard.sessions.queries import (
    FIELDS,
    MOST_ROWS,
    ORDERS,
    SessionFilter,
    SessionRow,
    session_rows,
    session_values,
)
from dashboard.streams import actions as streams_actions
from dashboard.streams import measurements
from dashboard.streams.actions import NOTE_LENGTH, ActionProblem
from dashboard.streams.queries import Now
from dashboard.templatetags.ui import ended_words, figure, lasted
from ingest.contracts import ENDS
from ingest.models import Node, Session
from ingest.services.roles import Ability

DASH = "–"
AT_ITS_END = "known when it ends"
"""What a session that is on air does not tell yet."""
MIN_DIFFERENCE = 0.1
"""Figures that are further apart than this share of the larger differ."""


@dataclass(frozen=True, slots=True)
class Fact:
    name: str
    a: str
    b: str
    differs: bool


@dataclass(frozen=True, slots=True)
class Pair:
    a: Session
    b: Session

    @property
    def boot(self) -> dict[str, Any]:
        """What the page's script begins with. Times in seconds, those of `begins` since the epoch; `span`: how long
        the longer lasted.
        """
        both = (self.a, self.b)
        return {
            "span": max(int(_seconds(session)) + 1 for session in both),
            "data": [reverse("dashboard:session-data", args=[session.pk]) for session in both],
            "open": [session.ended_at is None for session in both],
            "begins": [int(session.started_at.timestamp()) for session in both],
        }

    @property
    def facts(self) -> list[Fact]:
        texts = [Fact(name, a := words(self.a), b := words(self.b), a != b) for name, words in TEXTS]
        return [*texts, *(_figures(name, value, self.a, self.b) for name, value in FIGURES.items())]


def _session(text: str) -> Session | None:
    try:
        return session_rows().filter(pk=uuid.UUID(text)).first()
    except ValueError:
        return None


def _seconds(session: Session) -> float:
    return max(0.0, (measurements.ended(session) - session.started_at).total_seconds())


def _summary(session: Session, part: str, name: str) -> Any:
    found = session.summary.get(part)
    return found.get(name) if isinstance(found, dict) else None


def _media_words(session: Session) -> str:
    picture = f"{session.width} × {session.height}" if session.width else ""
    words = [session.video_codec, _summary(session, "media", "profile"), picture]
    return " ".join(str(word) for word in words if word) or DASH


def _claimed_kbps(value: Any) -> str:
    return f"{figure(value)}\u00a0kbit/s" if isinstance(value, int | float) and value > 0 else DASH


TEXTS: tuple[tuple[str, Callable[[Session], str]], ...] = (
    ("Stream", lambda row: f"{row.app}/{row.name}"),
    ("Kind", lambda row: "Published" if row.kind == Session.Kind.PUBLISH else "Played"),
    ("End", lambda row: ended_words(row) if row.ended_at else "On air"),
    ("Encoder", lambda row: row.encoder or DASH),
    ("Address", lambda row: row.address),
    ("Protocol", lambda row: row.get_protocol_display() or DASH),
    ("Node", lambda row: row.node.name if row.node else DASH),
    ("Key", lambda row: str(row.key or row.login or DASH)),
    ("Video", _media_words),
    ("Audio", lambda row: row.audio_codec or DASH),
    ("Frame rate setting", lambda row: str(_summary(row, "metadata", "framerate") or DASH)),
    ("Video bitrate setting", lambda row: _claimed_kbps(_summary(row, "metadata", "videodatarate"))),
)
Value = tuple[float | None, str]
"""A figure, and its text."""


def _lasted(session: Session) -> Value:
    return _seconds(session), lasted(session.started_at, measurements.ended(session))


def _data(session: Session) -> Value:
    if session.is_uncounted:
        return None, DASH
    return _bytes(session), filesizeformat(_bytes(session))


def _bytes(session: Session) -> int:
    return session.bytes_in or session.bytes_out


def _rate(amount: float, session: Session, unit: str, decimals: int) -> Value:
    seconds = _seconds(session)
    if not amount or seconds < 1:
        return None, DASH
    return amount / seconds, f"{figure(amount / seconds, decimals)}\u00a0{unit}".strip()


def _keyframe_every(session: Session) -> Value:
    if not session.keyframes:
        return None, DASH
    return _seconds(session) / session.keyframes, f"{_seconds(session) / session.keyframes:.1f}\u00a0s"


FIGURES: dict[str, Callable[[Session], Value]] = {
    "Duration": _lasted,
    "Data": _data,
    "Mean bitrate, audio and video": lambda row: _rate(_bytes(row) * 8 / 1000, row, "kbit/s", 0),
    "Frame rate": lambda row: _rate(row.video_frames, row, "", 1),
    "Keyframe interval": _keyframe_every,
}


def _figures(name: str, value: Callable[[Session], Value], a: Session, b: Session) -> Fact:
    (one, one_text), (other, other_text) = (
        (None, AT_ITS_END) if row.ended_at is None and value is not _lasted else value(row) for row in (a, b)
    )
    if AT_ITS_END in (one_text, other_text):
        return Fact(name, one_text, other_text, False)
    if one is None or other is None:
        return Fact(name, one_text, other_text, (one is None) != (other is None))
    return Fact(name, one_text, other_text, abs(one - other) > MIN_DIFFERENCE * max(abs(one), abs(other)))


@safe_view(Ability.VIEW)
def sessions(request: HttpRequest) -> HttpResponse:
    """By pages. htmx gets the results alone."""
    search = SessionFilter.of(request.GET)
    page = search.page(request.GET.get("before", ""))
    now = Now.read()
    context: dict[str, Any] = {
        "search": search,
        "filters": search.shown,
        "rows": [SessionRow.of(row, now) for row in page.rows],
        "page": page,
        "at": timezone.now(),
        "query": lists.query_without(request, "before"),
    }
    if request.headers.get("HX-Request") == "true":
        return render(request, "dashboard/_sessions.html", context)
    context |= {
        "nodes": list(Node.objects.values_list("name", flat=True)),
        "protocols": Session.Protocol.choices,
        "reasons": [(reason, end.words) for reason, end in ENDS.items()],
        "orders": ORDERS.items(),
        "is_empty": not search.is_filtered and not Session.objects.exists(),
        "most_rows": MOST_ROWS,
    }
    return render(request, "dashboard/sessions.html", context)


@safe_view(Ability.VIEW)
def export(request: HttpRequest, form: str) -> StreamingHttpResponse:
    """What the page's filters find, the last begun first, MOST_ROWS at most."""
    rows = SessionFilter.of(request.GET).rows()[:MOST_ROWS].iterator(lists.CHUNK_ROWS)
    found = (session_values(row) for row in rows)
    return lists.file_answer(f"sessions-{timezone.now():%Y%m%d-%H%M}", form, FIELDS, found)


@safe_view(Ability.VIEW)
def compare(request: HttpRequest) -> HttpResponse:
    """Two sessions by `a` and `b`. Where one is missing or unknown, the page says how to choose."""
    a, b = (_session(request.GET.get(name, "")) for name in ("a", "b"))
    return render(request, "dashboard/sessions_compare.html", {"pair": Pair(a, b) if a and b else None})


PLAYERS_SHOWN = 20
POINTS = 600
MOST_POINTS = 2000
MAX_SPAN_S = 400 * 86400


@safe_view(Ability.VIEW)
def session(request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
    """In the order in which somebody asks who was called at night. Charts come after, by `data`."""
    row = get_object_or_404(session_rows(), pk=pk)
    is_publish = row.kind == Session.Kind.PUBLISH
    diagnosis = Diagnosis(row) if is_publish else None
    players = _players(row) if is_publish else Session.objects.none()
    target = measurements.target_kbps(row)
    context: dict[str, Any] = {
        "session": row,
        "target": target,
        "row": SessionRow.of(row, Now.read()),
        "at": timezone.now(),
        "end": measurements.ended(row),
        "diagnosis": diagnosis,
        "findings": diagnosis.findings(may_set=Ability.MANAGE_KEYS in request_abilities(request)) if diagnosis else [],
        "acknowledged": streams_actions.end_acknowledgement(row),
        "recordings": row.recordings.select_related("application"),
        "players": players[:PLAYERS_SHOWN],
        "player_count": players.count(),
        "viewing": _viewing(row) if row.protocol == Session.Protocol.HLS else None,
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


@safe_view(Ability.VIEW)
def data(request: HttpRequest, pk: uuid.UUID) -> JsonResponse:
    """What the page draws: lanes, events and samples. `points` and `span` (seconds): for a comparison. `from` and
    `until` (seconds since the epoch): a part of it.
    """
    row = get_object_or_404(session_rows(), pk=pk)
    points, window = _whole(request, "points", POINTS, MOST_POINTS), _window(request, row)
    series = measurements.samples(row, points=points, span_s=_span(request), window=window)
    events = measurements.events_of(row, window)
    response = JsonResponse(
        {
            "lanes": measurements.lanes(row, events, series.gaps, window),
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
    response["Cache-Control"] = "no-store"
    return response


DRAWN = (
    *("video_kbps", "audio_kbps", "fps", "keyframe_interval", "drift_dev", "rtt_ms", "players"),
    *("ts_gap", "ts_regress", "missing_frames_est"),
)


@safe_view(Ability.VIEW)
def samples(request: HttpRequest, pk: uuid.UUID) -> StreamingHttpResponse:
    row = get_object_or_404(session_rows(), pk=pk)
    columns, rows = sessions_queries.series_rows(measurements.samples(row, points=measurements.MOST_POINTS))
    return lists.csv_answer(f"samples-{pk}", columns, rows)


@post_view(Ability.NOTE)
def note(request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
    return _answer(request, pk, streams_actions.note_session, "The note is saved.")


@post_view(Ability.NOTE)
def acknowledge(request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
    return _answer(request, pk, streams_actions.acknowledge_end, "The end of the session is acknowledged.")


def _answer(request: HttpRequest, pk: uuid.UUID, action: Any, done: str) -> HttpResponse:
    row = get_object_or_404(Session.objects.select_related("stream__application"), pk=pk)
    note = request.POST.get("note", "")
    back = reverse("dashboard:session", args=[pk])
    return answer_action(request, lambda: action(row, actor_of(request), note), ActionProblem, done, 200, back)


def _players(row: Session) -> QuerySet[Session]:
    """Those that played the stream while it was published."""
    plays = session_rows().filter(
        app=row.app, name=row.name, kind=Session.Kind.PLAY, started_at__lte=measurements.ended(row)
    )
    return plays.exclude(ended_at__lt=row.started_at)


def _viewing(row: Session) -> dict[str, Any]:
    """What a viewer's page told, in seconds; and how much it waited for media, of the time that it was to play."""
    join, stalled, watched = (row.summary.get(name) for name in ("join_ms", "stalled_ms", "watched_ms"))
    whole = (stalled or 0) + (watched or 0)
    return {
        "join_s": None if join is None else join / 1000,
        "stalls": row.summary.get("stalls"),
        "stalled_s": None if stalled is None else stalled / 1000,
        "watched_s": None if watched is None else watched / 1000,
        "stalled_percent": 100 * (stalled or 0) / whole if whole else None,
    }


def _publisher(row: Session) -> Session | None:
    """Who published the stream when the player came."""
    before = session_rows().filter(app=row.app, name=row.name, kind=Session.Kind.PUBLISH)
    publisher = before.filter(started_at__lte=measurements.ended(row)).first()
    return publisher if publisher and (publisher.ended_at is None or publisher.ended_at >= row.started_at) else None


def _media(row: Session) -> dict[str, Any]:
    own = {name: getattr(row, name) or None for name in ("video_codec", "audio_codec", "width", "height")}
    return own | (row.summary.get("media") or {})


def _whole(request: HttpRequest, name: str, usual: int, most: int) -> int:
    text = request.GET.get(name, "")
    return max(10, min(int(text), most)) if text.isascii() and text.isdigit() else usual


def _span(request: HttpRequest) -> float | None:
    return float(_whole(request, "span", 60, MAX_SPAN_S)) if "span" in request.GET else None


def _window(request: HttpRequest, row: Session) -> measurements.Window | None:
    """The part of the session that is asked for; None: all of it, as where that can't be understood."""
    begin, end = row.started_at.timestamp(), measurements.ended(row).timestamp()
    try:
        first, last = (float(request.GET[name]) for name in ("from", "until"))
    except (KeyError, ValueError):
        return None
    first, last = max(begin, first), min(end, last)
    return (first, last) if last > first else None  # Not a number is neither.
