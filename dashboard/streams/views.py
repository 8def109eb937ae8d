"""The wall, a stream's page with its thumbnail and live preview, and what people do there: kick, note, acknowledge,
mute. Each action by a form, with or without a script."""

import uuid
from datetime import datetime
from functools import partial
from urllib.parse import urlsplit

from csp.constants import SELF
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.cache import get_conditional_response

from dashboard import zones
from dashboard.access import actor_of, post_view, safe_view
from dashboard.lists import answer, answer_action
from dashboard.streams import actions as streams_actions
from dashboard.streams import measurements
from dashboard.streams.actions import NOTE_LENGTH, ActionProblem, Kick, kick_publisher
from dashboard.streams.measurements import summarize_last_minute
from dashboard.streams.queries import Now, limits_of, open_publisher, stream_row
from dashboard.streams.snapshots import stream_database_part, stream_picture
from ingest.contracts.figures import STREAM_CHECKS
from ingest.live_store import CompactSample, get_livestore
from ingest.models import Application, Attempt, Session, StreamKey
from ingest.services import keys, media_urls
from ingest.services.roles import Ability


@safe_view(Ability.VIEW)
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
                "attempts_url": reverse("dashboard:attempts"),
                "session_url": reverse("dashboard:session", args=[uuid.UUID(int=0)]),
                "server": media_urls.server_base(),
            },
            "open_apps": list(
                Application.objects.filter(enabled=True, publish_policy=Application.PublishPolicy.OPEN).values_list(
                    "name", flat=True
                )
            ),
        },
    )


RECENT_S = 65
"""The sparkline's 60 s, and what its first mean of 5 s needs."""


@safe_view(Ability.VIEW)
def recent(request: HttpRequest) -> JsonResponse:
    """`{"items": {stream id: {"at": [...], "video_kbps": [...], "audio_kbps": [...], "health": [...]}}}`."""
    store = get_livestore()
    live = {stream["id"] for stream in store.read().streams if stream["state"] == "live"}
    response = JsonResponse({"items": {pk: _recent_columns(store.recent(pk)) for pk in live}})
    response["Cache-Control"] = "no-store"
    return response


def _recent_columns(samples: list[CompactSample]) -> dict[str, list[object]]:
    rows = [sample for sample in samples if sample["at"] > samples[-1]["at"] - RECENT_S]
    return {
        "at": [round(row["at"], 1) for row in rows],
        "video_kbps": [round(row["video_kbps"]) for row in rows],
        "audio_kbps": [round(row["audio_kbps"]) for row in rows],
        "health": [row["health"] for row in rows],
    }


MAX_AGE_S = 900


@safe_view(Ability.VIEW)
def thumbnail(request: HttpRequest, app: str, name: str) -> HttpResponseBase:
    """WebP; 404 where there is none. Under `?v=` and the number that the stream's snapshot names it never changes."""
    picture = get_livestore().thumbnail(f"{app}/{name}")
    if picture is None:
        return HttpResponse("There is no picture.", status=404, content_type="text/plain")
    etag = f'"{picture.at_ms}"'
    response = HttpResponse(picture.image, content_type="image/webp")
    response["ETag"] = etag
    is_version = request.GET.get("v") == str(picture.at_ms)
    response["Cache-Control"] = f"private, max-age={MAX_AGE_S}, immutable" if is_version else "private, no-cache"
    return get_conditional_response(request, etag=etag, response=response) or response


PREVIEW_OFF = "No preview: the media listener, which sends it, is off here. Set RTMPWEB_MEDIA."
PREVIEW_NEEDS_HTTPS = (
    "No preview: this page came by HTTPS, from which browsers get nothing by plain HTTP. Put the media listener behind "
    "the proxy too, and its https:// address into RTMPWEB_MEDIA_URL."
)


@post_view(Ability.VIEW)
def preview(request: HttpRequest, app: str, name: str) -> HttpResponse:
    """URLs by which the stream can be looked at, if that begins within a minute, whoever else may play it.

    They bear a token: asked for when a preview begins, and never a part of a page.
    """
    row = stream_row(app, name)
    urls = media_urls.make_preview(stream=row, page=page_host(request))
    if urls is None or (request.is_secure() and not urls.flv_url.startswith("https:")):
        return JsonResponse({"detail": PREVIEW_OFF if urls is None else PREVIEW_NEEDS_HTTPS}, status=503)
    answer = JsonResponse({"ws_url": urls.ws_url, "flv_url": urls.flv_url})
    answer["Cache-Control"] = "private, no-store"
    return answer


def page_host(request: HttpRequest) -> str:
    """The host by which the browser reaches the dashboard, without a port."""
    return urlsplit(f"//{request.get_host()}").hostname or media_urls.url_host("")


def allow_preview(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """Lets the page, and no other, get media from the media listener; mpegts.js hands it to the browser as a blob."""
    origins = media_urls.media_origins(page_host(request))
    if origins:
        response._csp_update = {"connect-src": origins, "media-src": [SELF, "blob:"]}  # type: ignore[attr-defined]
    return response


SESSIONS_SHOWN = 10
ATTEMPTS_SHOWN = 10
KEYS_SHOWN = 5

KEPT_S = 3600
AGAIN_S = 8


@safe_view(Ability.VIEW)
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
                    now.at,
                    snapshot,
                    get_livestore().recent(row.pk),
                    stream_database_part(row.pk, snapshot["session_id"]),
                ),
                "limits": limits_of(row),
                "urls": {
                    "preview": reverse("dashboard:preview", args=[app, name]),
                    "samples": reverse("api-1:stream-samples", args=[app, name]),
                },
            },
            "session": open_publisher(row),
            "last": last,
            "previous": previous,
            "last_minute": _last_minute(last) if last is not None and last.ended_at is not None else "",
            "sessions": sessions.select_related("key", "login")[:SESSIONS_SHOWN],
            "keys": [(key, _key_state(key)) for key in row.keys.order_by("-created_at")[:KEYS_SHOWN]],
            "attempts": Attempt.objects.filter(app=app, name=name).order_by("-at")[:ATTEMPTS_SHOWN],
            "checks": STREAM_CHECKS,
            "ws_path": f"/ws/streams/{row.pk}/",
            "server_url": media_urls.server_base(),
            "note_length": NOTE_LENGTH,
        },
    )
    return allow_preview(request, answer)


def _last_minute(session: Session) -> str:
    """What there was to see before it ended; kept, since open pages ask again every few seconds."""
    key = f"last-minute:{session.pk}"
    known = cache.get(key)
    if known is None:
        found = summarize_last_minute(measurements.last_minute(session))
        known = found.sentence
        # What is measured takes a moment to be where it is read; "nothing" may be too early.
        cache.set(key, known, KEPT_S if found.seen != "nothing" else AGAIN_S)
    return str(known)


def _key_state(key: StreamKey) -> str:
    state = keys.state(key=key, now=timezone.now())
    if state == "revoked" and key.revoked_at is not None:
        return f"revoked on {_day_time(key.revoked_at)}"
    if state == "expired" and key.expires_at is not None:
        return f"expired on {_day_time(key.expires_at)}"
    until = key.grace_until if key.revoked_at is not None else key.expires_at
    return f"{state} until {_day_time(until)}" if until is not None and state == "active" else state


def _day_time(at: datetime) -> str:
    return zones.clock(at, "%-d %b", "%H:%M", is_named=False)


KICK_WORDS = {
    Kick.ASKED: "The publisher of {path} is being disconnected.",
    Kick.OFF_AIR: "Nobody publishes {path} now.",
    Kick.OTHER: "Another publisher is on {path} by now; nothing was done. Look again, then kick.",
}

MUTE_HOURS = {"1": 1.0, "8": 8.0, "": None}
"""By the form's value; None: until it is lifted."""


@post_view(Ability.KICK)
def kick(request: HttpRequest, app: str, name: str) -> HttpResponse:
    """Disconnect the publisher.

    `session_id`, when given, is the session that the page showed: a publisher that came since is left alone.
    """
    row = stream_row(app, name)
    outcome, session = kick_publisher(
        row,
        actor_of(request),
        note=request.POST.get("note", ""),
        session_id=request.POST.get("session_id", ""),
    )
    words = KICK_WORDS[outcome].format(path=row.path)
    session_id = str(session.pk) if session else None
    status = 202 if outcome is Kick.ASKED else 409
    return answer(request, words, status, _page(app, name), session_id=session_id)


@post_view(Ability.NOTE)
def note(request: HttpRequest, app: str, name: str) -> HttpResponse:
    row, text = stream_row(app, name), request.POST.get("note", "")
    action = partial(streams_actions.add_note, row, actor_of(request), text)
    return answer_action(request, action, ActionProblem, "The note is in the log.", 201, _page(app, name))


@post_view(Ability.NOTE)
def acknowledge(request: HttpRequest, app: str, name: str) -> HttpResponse:
    check, text, row = request.POST.get("check", ""), request.POST.get("note", ""), stream_row(app, name)
    action = partial(streams_actions.acknowledge_issue, row, actor_of(request), check=check, note=text)
    return answer_action(request, action, ActionProblem, "The issue is acknowledged.", 201, _page(app, name))


@post_view(Ability.NOTE)
def mute(request: HttpRequest, app: str, name: str) -> HttpResponse:
    """Alerts of a `check`, of all without one, for 1 or 8 `hours`; without, until it is lifted."""
    row, hours, back = stream_row(app, name), request.POST.get("hours", ""), _page(app, name)
    if hours not in MUTE_HOURS:
        return answer(request, "Alerts are muted for 1 hour, for 8 hours, or until the mute is lifted.", 409, back)
    check, text = request.POST.get("check", ""), request.POST.get("note", "")
    streams_actions.mute(row, actor_of(request), check=check, hours=MUTE_HOURS[hours], note=text)
    return answer(request, "Alerts are muted.", 201, back)


@post_view(Ability.NOTE)
def unmute(request: HttpRequest, app: str, name: str) -> HttpResponse:
    """Lift the mute of a `check`; "": the mute of all checks at once."""
    lifted = streams_actions.unmute(stream_row(app, name), actor_of(request), check=request.POST.get("check", ""))
    words = "Alerts are on again." if lifted else "This mute has ended already."
    return answer(request, words, 200, _page(app, name))


def _page(app: str, name: str) -> str:
    return reverse("dashboard:stream", args=[app, name])
