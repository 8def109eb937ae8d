"""The page on which whoever may watch a stream does so: without a log-in and cookies, also in another page's frame.

Whether somebody may is asked as by any other player (ingest.services.playback). A name that nobody may watch, one that
takes a link and one that is not there have one answer: names can't be found out by asking."""

from typing import Any
from urllib.parse import urlsplit

from csp.constants import NONE, SELF
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.cache import get_conditional_response
from django.views.decorators.http import require_safe

from dashboard.public_pages import closed, take_of_address
from dashboard.throttle import Limit
from ingest.live_store import get_livestore
from ingest.models.names import name_within
from ingest.services import media_urls, playback
from ingest.services.playback import Playable
from ingest.services.refusals import Refused

OF_ADDRESS = Limit("watch-address", 1200, 60)
"""Pages and pictures of an address, behind which many may be."""
WAIT_S = 15

CLOSED = (
    "There is nothing to watch here",
    "The stream is closed or needs a link, or there is none of this name. Ask whoever sent you here.",
)
LINK_ENDED = (
    "This link doesn’t work any more",
    "It has expired or was replaced by a new one. Ask whoever sent it for the new one.",
)
TOO_OFTEN = ("This page was opened too often", "Wait some seconds, then load it again.")
NEEDS_HTTPS = (
    "The stream can’t be played on this page",
    "It came by HTTPS, and the media would come without. Whoever runs this server sets RTMPWEB_HLS_URL to an https:// "
    "address.",
)

POSTER_S = 10
"""For so long a picture may be kept."""


@require_safe
def watch(request: HttpRequest, app: str, name: str) -> HttpResponse:
    """`token`: of the link, where it takes one. `embed`: for a frame of another page, which any may be."""
    token = request.GET.get("token", "")
    if not take_of_address(OF_ADDRESS, request):
        return _refusal(request, TOO_OFTEN, 429)
    base = media_urls.hls_base(media_urls.page_host(request))
    found = _allowed(app, name, token) if base else None
    if found is None:
        return _refusal(request, LINK_ENDED if token else CLOSED, 404)
    if request.is_secure() and not base.startswith("https:"):
        return _refusal(request, NEEDS_HTTPS, 503)
    query = f"?token={token}" if token and found.takes_token else ""
    url = media_urls.hls_url_of(app=found.app, name=found.name, base=base, token=token if query else "")
    context = {
        "title": name_within(found.name),
        "hls": url.removesuffix("index.m3u8"),
        "poster": reverse("dashboard:poster", args=[found.app, found.name]) + query,
        "can_rewind": settings.REWIND_S > 0,
    }
    return _answer(request, "watch/watch.html", context, base=base)


@require_safe
def poster(request: HttpRequest, app: str, name: str) -> HttpResponse:
    """The last picture, WebP, for whoever may watch (else 404); where there is none yet, nothing."""
    found = None
    if take_of_address(OF_ADDRESS, request):
        found = _allowed(app, name, request.GET.get("token", ""))
    if found is None:
        return HttpResponse("There is no picture.", status=404, content_type="text/plain")
    picture = get_livestore().thumbnail(found.path)
    if picture is None:
        return HttpResponse(status=204)
    etag = f'"{picture.at_ms}"'
    response = HttpResponse(picture.image, content_type="image/webp")
    response["ETag"], response["Cache-Control"] = etag, f"private, max-age={POSTER_S}"
    return get_conditional_response(request, etag=etag, response=response) or response


def _allowed(app: str, name: str, token: str) -> Playable | None:
    try:
        return playback.check(app=app, name=name, credential=token, now=timezone.now(), wanted="live")
    except Refused:
        return None


def _refusal(request: HttpRequest, words: tuple[str, str], status: int) -> HttpResponse:
    heading, sentence = words
    context = {"heading": heading, "sentence": sentence}
    response = _answer(request, "watch/refused.html", context, status=status)
    if status in (429, 503):
        response["Retry-After"] = str(WAIT_S)
    return response


def _answer(
    request: HttpRequest, template: str, context: dict[str, Any], *, base: str = "", status: int = 200
) -> HttpResponse:
    """`base`: of the HLS listener, from which alone the page gets anything beside its own files. Who is logged in makes
    no difference to it: the session is not looked at.
    """
    is_framed = request.GET.get("embed") == "1"
    response = HttpResponse(render_to_string(template, context | {"embed": is_framed}), status=status)
    policy: dict[str, list[str]] = {"connect-src": [NONE], "img-src": [SELF], "form-action": [NONE], "base-uri": [NONE]}
    if base:
        origin = "{0.scheme}://{0.netloc}".format(urlsplit(base))
        policy |= {"connect-src": [origin], "media-src": ["blob:", "data:", origin]}
    if is_framed:
        policy["frame-ancestors"] = ["*"]
        response.xframe_options_exempt = True
    response._csp_replace = policy  # type: ignore[attr-defined]
    return closed(response)
