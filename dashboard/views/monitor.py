"""The pages that show what is on air: the wall and one stream's page, and the kick."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from dashboard.history import latest_events, open_publisher
from dashboard.kicking import NOTE_LENGTH, Kick, kick_publisher
from dashboard.permissions import Ability
from dashboard.snapshots import stream_picture
from dashboard.streams import Now
from dashboard.views.access import require_ability
from ingest.livestore import get_livestore
from ingest.models import Application, Attempt, Session, Stream
from ingest.services import paste

DROPPED_S = 15 * 60
"""A publisher that ended this recently stands in the wall's strip."""

SESSIONS_SHOWN = 10
ATTEMPTS_SHOWN = 10

KICK_WORDS = {
    Kick.ASKED: "The publisher of {path} is being disconnected.",
    Kick.OFF_AIR: "Nobody publishes {path} now.",
    Kick.OTHER: "Another publisher is on {path} by now; nothing was done. Look again, then kick.",
}


@require_safe
@require_ability(Ability.VIEW)
def wall(request: HttpRequest) -> HttpResponse:
    """Every stream. The page fills itself from /ws/live/; its data are where to find what."""
    return render(
        request,
        "dashboard/wall.html",
        {
            "live_page": True,
            "bootstrap": {
                "ws": "/ws/live/",
                "stream_url": reverse("dashboard:stream", args=["__APP__", "__NAME__"]),
                "sessions_url": f"{reverse('api-1:sessions')}?kind=publish&open=false&ended_within={DROPPED_S}",
                "server": paste.server_base(),
            },
            "open_apps": list(
                Application.objects.filter(enabled=True, publish_policy=Application.PublishPolicy.OPEN).values_list(
                    "name", flat=True
                )
            ),
        },
    )


@require_safe
@require_ability(Ability.VIEW)
def stream(request: HttpRequest, app: str, name: str) -> HttpResponse:
    """One stream: what it does now, and what happened to it."""
    row = _stream(app, name)
    now = Now.read()
    events = latest_events(row.pk)
    snapshot = now.of_stream(row)
    sessions = row.sessions.filter(kind=Session.Kind.PUBLISH)
    return render(
        request,
        "dashboard/stream.html",
        {
            "live_page": True,
            "stream": row,
            "snap": snapshot,
            "boot": stream_picture(now.at, snapshot, get_livestore().recent(row.pk), events),
            "events": events,
            "session": open_publisher(row),
            "sessions": sessions.select_related("key").order_by("-started_at")[:SESSIONS_SHOWN],
            "attempts": Attempt.objects.filter(app=app, name=name).order_by("-at")[:ATTEMPTS_SHOWN],
            "ws_path": f"/ws/streams/{row.pk}/",
            "server_url": paste.server_base(),
            "note_length": NOTE_LENGTH,
        },
    )


@require_POST
@require_ability(Ability.KICK)
def kick(request: HttpRequest, app: str, name: str) -> HttpResponse:
    """Disconnect the publisher.

    `session_id`, when given, is the session that the page showed: a publisher that came since is left alone.
    """
    row = _stream(app, name)
    note = request.POST.get("note", "").strip()[:NOTE_LENGTH]
    assert isinstance(request.user, User)  # noqa: S101  # The gate lets no other through.
    outcome, session = kick_publisher(
        row,
        note=note,
        by=request.user,
        by_name=request.user.get_username(),
        session_id=request.POST.get("session_id", ""),
    )
    words = KICK_WORDS[outcome].format(path=row.path)
    if request.accepts("text/html"):
        messages.add_message(request, messages.SUCCESS if outcome is Kick.ASKED else messages.WARNING, words)
        return HttpResponseRedirect(reverse("dashboard:stream", args=[app, name]))
    body: dict[str, Any] = {"detail": words, "session_id": str(session.pk) if session else None}
    return JsonResponse(body, status=202 if outcome is Kick.ASKED else 409)


def _stream(app: str, name: str) -> Stream:
    return get_object_or_404(Stream.objects.select_related("application"), application__name=app, name=name)
