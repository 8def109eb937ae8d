"""A recording to look at: the page of who is logged in, and the page of a link, which needs no log-in. Both play MP4
from the media listener, whose URL bears a token: an operator's look, which the page asks for, or the link's own."""

from datetime import timedelta
from functools import partial
from typing import Any

from csp.constants import SELF
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from dashboard.access import actor_of, post_view, safe_view
from dashboard.public_pages import closed, site_of, take_of_address
from dashboard.recordings import queries as service
from dashboard.throttle import Limit
from ingest.models import Application, Recording
from ingest.services import actions as services_actions
from ingest.services import audit, media_urls, playback
from ingest.services.refusals import Refused, describe
from ingest.services.roles import Ability

LINK_HOURS = {"1": "1 hour", "24": "1 day", "168": "1 week", "720": "30 days"}
"""For which a link may be made."""

NEEDS_HTTPS = (
    "This page came by HTTPS, from which browsers get nothing by plain HTTP. Put the media listener behind the proxy "
    "too, and its https:// address into RTMPWEB_MEDIA_URL."
)
GROWING = "It is still being recorded, and can be watched once that has ended."

OF_ADDRESS = Limit("recording-link", 120, 60)
"""Pages that are asked for by one address."""
TOO_OFTEN = "This page was opened too often from your address. Try again in a minute."
UNKNOWN = "This link leads to nothing that can be watched. Copy it again as it was sent to you, or ask for a new one."
EXPIRED = "This link has expired. Ask who sent it to you for a new one."
LATER = "This can’t be shown now. Try again later."


@safe_view(Ability.VIEW)
def recording(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(service.rows(), pk=pk)
    problem = _problem(request, row)
    context = {
        "recording": row,
        "problem": problem,
        "link_hours": LINK_HOURS.items(),
        "boot": {"url": reverse("dashboard:recording-player", args=[pk])},
    }
    return _with_media(request, render(request, "dashboard/recording.html", context))


def _problem(request: HttpRequest, row: Recording) -> str:
    """Why the request's page can't play it, as far as that is known without its file; "": it may."""
    base = media_urls.media_base(media_urls.page_host(request))
    if not base:
        return service.MEDIA_OFF
    if request.is_secure() and not base.startswith("https:"):
        return NEEDS_HTTPS
    return GROWING if row.state == Recording.State.RECORDING else ""


def _with_media(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """Lets the page, and no other, get media from the media listener."""
    origins = media_urls.media_origins(media_urls.page_host(request))[:1]
    if origins:
        response._csp_update = {"connect-src": origins, "media-src": [SELF, *origins]}  # type: ignore[attr-defined]
    return response


@post_view(Ability.VIEW)
def player(request: HttpRequest, pk: int) -> HttpResponse:
    """A URL by which the recording can be looked at for an hour, whoever else may play it.

    It bears a token: asked for when playing begins, and never a part of a page.
    """
    row = get_object_or_404(service.rows(), pk=pk)
    problem = _problem(request, row)
    if problem:
        return JsonResponse({"detail": problem}, status=409 if problem == GROWING else 503)
    name = services_actions.recording_name(row)
    audit.record(actor_of(request), "recording.watch", name, stream=row.stream, file=row.file)
    answer = JsonResponse({"mp4_url": media_urls.look_url(row, page=media_urls.page_host(request))})
    answer["Cache-Control"] = "private, no-store"
    return answer


@post_view(Ability.SHARE)
def link(request: HttpRequest, pk: int) -> HttpResponse:
    """A link that shows the recording for `hours`, once: a part of the page, which asks for it by script."""
    row, hours = get_object_or_404(service.rows(), pk=pk), request.POST.get("hours", "")
    if hours not in LINK_HOURS:
        raise BadRequest(f"hours is one of {', '.join(LINK_HOURS)}")
    words = _why_not_shared(row)
    if words:
        return JsonResponse({"errors": {"": [words]}}, status=422)
    page, site = media_urls.page_host(request), site_of(request)
    lifetime = timedelta(hours=int(hours))
    made = services_actions.recording_link(actor_of(request), recording=row, lifetime=lifetime, page=page, site=site)
    response = render(request, "dashboard/_recording_link_made.html", {"recording": row, "link": made}, status=201)
    response["Cache-Control"] = "no-store"
    return response


def _why_not_shared(row: Recording) -> str:
    if not media_urls.media_base():
        return service.MEDIA_OFF
    if row.state == Recording.State.RECORDING:
        return "It is still being recorded. Share it once that has ended."
    if playback.policy_of(row.application, row.stream) == Application.PlayPolicy.NONE:
        return describe("play_not_allowed")
    return ""


@require_safe
def watch(request: HttpRequest, pk: int) -> HttpResponse:
    """By the link's token, or without one where everybody may play the recording. What the link isn't for, and what
    isn't there, are answered alike."""
    refuse, token = partial(_refused, request), request.GET.get("token", "")
    if not take_of_address(OF_ADDRESS, request):
        return refuse(TOO_OFTEN, 429)
    row = service.rows().filter(pk=pk).first()
    if row is None:
        return refuse(UNKNOWN, 404)
    now, app = timezone.now(), row.application.name
    try:
        found = playback.check(app=app, name=row.name, credential=token, now=now, wanted="recorded", by_http=True)
    except Refused as refused:
        return refuse(EXPIRED, 410) if refused.reason == "token_expired" else refuse(UNKNOWN, 404)
    if found.recording is None or found.recording["recording"] != pk or found.is_download or found.is_preview:
        return refuse(UNKNOWN, 404)
    problem = _problem(request, row)
    if problem:
        return refuse(GROWING, 409) if problem == GROWING else refuse(LATER, 503)
    url = media_urls.recording_url(row, "mp4", page=media_urls.page_host(request))
    context = {"recording": row, "src": f"{url}?token={token}" if token else url, "boot": {}}
    return closed(_with_media(request, render(request, "dashboard/recording_watch.html", context)))


def _refused(request: HttpRequest, words: str, status: int) -> HttpResponse:
    context: dict[str, Any] = {"recording": None, "words": words}
    return closed(render(request, "dashboard/recording_watch.html", context, status=status))
