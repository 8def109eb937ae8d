"""One stream's page: what it does now, what happened to it, and the live preview."""

from datetime import datetime

from django.core.cache import cache
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from dashboard import zones
from dashboard.history import open_publisher
from dashboard.limits import NAMES, limits_of
from dashboard.operating import NOTE_LENGTH
from dashboard.sessions import measured
from dashboard.sessions.lastminute import look
from dashboard.snapshots import stream_picture, stream_told
from dashboard.streams import Now, stream_row
from dashboard.views.access import require_ability
from dashboard.views.preview import allow_preview
from ingest.livestore import get_livestore
from ingest.models import Attempt, Session, Stream, StreamKey
from ingest.roles import Ability
from ingest.services import keys, paste

SESSIONS_SHOWN = 10
ATTEMPTS_SHOWN = 10
KEYS_SHOWN = 5

KEPT_S = 3600
AGAIN_S = 8


@require_safe
@require_ability(Ability.VIEW)
def stream(request: HttpRequest, app: str, name: str) -> HttpResponse:
    row = stream_row(app, name)
    now = Now.read()
    snapshot = now.of_stream(row)
    sessions = row.sessions.filter(kind=Session.Kind.PUBLISH).order_by("-started_at")
    last, previous = [*sessions.filter(is_test=False).select_related("node")[:2], None, None][:2]
    answer = render(
        request,
        "dashboard/stream.html",
        {
            "live_page": True,
            "stream": row,
            "snap": snapshot,
            "boot": {
                **stream_picture(
                    now.at, snapshot, get_livestore().recent(row.pk), stream_told(row.pk, snapshot["session_id"])
                ),
                "limits": limits_of(row),
                "urls": _urls(app, name),
            },
            "session": open_publisher(row),
            "last": last,
            "previous": previous,
            "last_minute": _last_minute(last) if last is not None and last.ended_at is not None else "",
            "sessions": sessions.select_related("key", "login")[:SESSIONS_SHOWN],
            "keys": _keys(row, timezone.now()),
            "attempts": Attempt.objects.filter(app=app, name=name).order_by("-at")[:ATTEMPTS_SHOWN],
            "checks": NAMES,
            "ws_path": f"/ws/streams/{row.pk}/",
            "server_url": paste.server_base(),
            "note_length": NOTE_LENGTH,
        },
    )
    return allow_preview(request, answer)


def _last_minute(session: Session) -> str:
    """What there was to see before it ended; kept, since open pages ask again every few seconds."""
    key = f"last-minute:{session.pk}"
    known = cache.get(key)
    if known is None:
        found = look(measured.last_minute(session))
        known = found.sentence
        # What is measured takes a moment to be where it is read; "nothing" may be too early.
        cache.set(key, known, KEPT_S if found.seen != "nothing" else AGAIN_S)
    return str(known)


def _urls(app: str, name: str) -> dict[str, str]:
    """What the page's scripts ask for."""
    return {
        "preview": reverse("dashboard:preview", args=[app, name]),
        "samples": reverse("api-1:stream-samples", args=[app, name]),
    }


def _keys(stream: Stream, now: datetime) -> list[tuple[StreamKey, str]]:
    """The newest keys, each with its state in words."""
    return [(key, _state(key, now)) for key in stream.keys.order_by("-created_at")[:KEYS_SHOWN]]


def _state(key: StreamKey, now: datetime) -> str:
    state = keys.state(key=key, now=now)
    if state == "revoked" and key.revoked_at is not None:
        return f"revoked on {_day_time(key.revoked_at)}"
    if state == "expired" and key.expires_at is not None:
        return f"expired on {_day_time(key.expires_at)}"
    until = key.grace_until if key.revoked_at is not None else key.expires_at
    return f"{state} until {_day_time(until)}" if until is not None and state == "active" else state


def _day_time(at: datetime) -> str:
    return zones.clock(at, "%-d %b", "%H:%M", is_named=False)
