"""The wall, a stream's page with its thumbnail and live preview, and what people do there: kick, note, acknowledge,
mute. Each action by a form, with or without a script."""

import uuid
from datetime import datetime, timedelta
from functools import partial
from operator import itemgetter
from typing import Any

from csp.constants import SELF
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.cache import get_conditional_response

from dashboard import zones
from dashboard.access import actor_of, post_view, request_abilities, safe_view
from dashboard.lists import answer, answer_action
from dashboard.sessions.advice import setting_of
from dashboard.streams import actions as streams_actions
from dashboard.streams import measurements, relays, silences, watching
from dashboard.streams.actions import NOTE_LENGTH, ActionProblem, Kick, kick_publisher
from dashboard.streams.measurements import summarize_last_minute
from dashboard.streams.queries import Now, limits_of, stream_row
from dashboard.streams.snapshots import stream_database_part, stream_picture
from ingest.contracts.figures import STREAM_CHECKS
from ingest.live_store import CompactSample, get_livestore
from ingest.models import Application, Attempt, PullSource, PushTarget, Session, Stream, StreamKey
from ingest.models.hours import Missing, expected_streams
from ingest.services import keys, media_urls
from ingest.services.roles import Ability
from ingest.services.sessions import open_publisher


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
                "expected_url": reverse("dashboard:expected"),
                "attempts_url": reverse("dashboard:attempts"),
                "session_url": reverse("dashboard:session", args=[uuid.UUID(int=0)]),
                "server": media_urls.server_base(media_urls.page_host(request)),
                "checks": STREAM_CHECKS,
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


EXPECTED_S = 5
"""For so long what was found for one open wall is told others."""


@safe_view(Ability.VIEW)
def expected(request: HttpRequest) -> JsonResponse:
    """Streams that are off air though they should be live, the longest missing first: `{"items": [{"id", "app",
    "name", "since", "until", "was_live"}]}`, times in seconds since the epoch.
    """
    items = cache.get("expected-streams")
    if items is None:
        _, missing = expected_streams(timezone.now())
        rows = Stream.objects.filter(pk__in=missing).select_related("application") if missing else ()
        items = sorted((_missing(row, missing[row.pk]) for row in rows), key=itemgetter("since"))
        cache.set("expected-streams", items, EXPECTED_S)
    response = JsonResponse({"items": items})
    response["Cache-Control"] = "no-store"
    return response


def _missing(row: Stream, found: Missing) -> dict[str, Any]:
    names = {"id": row.pk, "app": row.application.name, "name": row.name, "was_live": found.was_live}
    return names | {"since": found.since.timestamp(), "until": found.until.timestamp()}


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
    urls = media_urls.make_preview(stream=row, page=media_urls.page_host(request))
    problem = _preview_problem(request)
    if urls is None or problem:
        return JsonResponse({"detail": problem}, status=503)
    answer = JsonResponse({"ws_url": urls.ws_url, "flv_url": urls.flv_url})
    answer["Cache-Control"] = "private, no-store"
    return answer


def _preview_problem(request: HttpRequest) -> str:
    """Why the request's page can have none; "": it can."""
    base = media_urls.media_base(media_urls.page_host(request))
    if not base:
        return PREVIEW_OFF
    return PREVIEW_NEEDS_HTTPS if request.is_secure() and not base.startswith("https:") else ""


def allow_preview(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """Lets the page, and no other, get media from the media listener; mpegts.js hands it to the browser as a blob."""
    origins = media_urls.media_origins(media_urls.page_host(request))
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
    """With `at`, a moment: the session that was on air then, or the last one before, if there is one."""
    row = stream_row(app, name)
    if at := zones.moment(request.GET.get("at", "")):
        before = row.sessions.filter(kind=Session.Kind.PUBLISH, started_at__lte=at + timedelta(seconds=1))
        if found := before.order_by("-started_at").first():
            return redirect(zones.at_moment(reverse("dashboard:session", args=[found.pk]), at))
    now = Now.read()
    snapshot = now.of_stream(row)
    sessions = row.sessions.filter(kind=Session.Kind.PUBLISH).order_by("-started_at")
    session = open_publisher(row)
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
                "settings": _settings(request, row),
                "urls": {
                    "preview": reverse("dashboard:preview", args=[app, name]),
                    "samples": reverse("api-1:stream-samples", args=[app, name]),
                    "session": reverse("dashboard:session", args=[uuid.UUID(int=0)]),
                },
            },
            "session": session,
            "pushes": relays.target_rows(row, snapshot, session),
            "pull": relays.source_row(row, session),
            "starts": PushTarget.Starts.choices,
            "pull_whens": PullSource.When.choices,
            "last": last,
            "previous": previous,
            "last_minute": _last_minute(last) if last is not None and last.ended_at is not None else "",
            "sessions": sessions.select_related("key", "login")[:SESSIONS_SHOWN],
            "keys": [
                (key, _key_state(key)) for key in row.keys.filter(link_of=None).order_by("-created_at")[:KEYS_SHOWN]
            ],
            "attempts": Attempt.objects.filter(app=app, name=name).order_by("-at")[:ATTEMPTS_SHOWN],
            "expected": _expected(row),
            "checks": STREAM_CHECKS,
            "ws_path": f"/ws/streams/{row.pk}/",
            "server_url": media_urls.server_base(media_urls.page_host(request)),
            "watch": watching.ways(request, row, no_preview=_preview_problem(request)),
            "note_length": NOTE_LENGTH,
        },
    )
    return allow_preview(request, answer)


def _expected(row: Stream) -> dict[str, Any]:
    """The times at which it should be live in words, the next begin, and whether it is missing now."""
    now, times = timezone.now(), list(row.expected_times.all())
    begins = [begin for each in times if (begin := each.next_begin(now)) is not None]
    missing = expected_streams(now)[1].get(row.pk) if times else None
    return {"times": times, "next": min(begins, default=None), "missing": missing}


def _settings(request: HttpRequest, row: Stream) -> dict[str, dict[str, str]]:
    """By check: where what is set of it can be changed, and the link's words; for who may."""
    if Ability.MANAGE_KEYS not in request_abilities(request):
        return {}
    return {check: dict(zip(("url", "words"), setting_of(check, row.path), strict=True)) for check in STREAM_CHECKS}


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
    Kick.ASKED: "The encoder of {path} is being disconnected.",
    Kick.OFF_AIR: "No encoder publishes {path} now.",
    Kick.OTHER: "Another encoder is on {path} by now; nothing was done. Check again, then kick.",
}


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
    """Alerts of a `check`, of all without one, for a `length`; as `silences.end_of_form` reads it."""
    row, given = stream_row(app, name), request.POST

    def act() -> None:
        until = silences.end_of_form(given.get("length", ""), given.get("at", ""), timezone.now())
        check, text = given.get("check", ""), given.get("note", "")
        silences.silence(row, actor_of(request), check=check, until=until, note=text)

    return answer_action(request, act, ActionProblem, "Alerts are silenced.", 201, _page(app, name))


@post_view(Ability.NOTE)
def unmute(request: HttpRequest, app: str, name: str) -> HttpResponse:
    """Lift the silence of a `check`; "": that of all checks at once."""
    lifted = silences.lift_of(stream_row(app, name), actor_of(request), check=request.POST.get("check", ""))
    words = "Alerts are on again." if lifted else "This silence has ended already."
    return answer(request, words, 200, _page(app, name))


def _page(app: str, name: str) -> str:
    return reverse("dashboard:stream", args=[app, name])
