"""The live preview on a stream's page: where it gets its media from, and that the page may."""

from urllib.parse import urlsplit

from csp.constants import SELF
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_POST

from dashboard.streams import stream_row
from dashboard.views.access import require_ability
from ingest.roles import Ability
from ingest.services import paste, playlinks

OFF = "No preview: the media listener, which sends it, is off here. Set RTMPWEB_MEDIA."
PLAIN = (
    "No preview: this page came by HTTPS, from which browsers get nothing by plain HTTP. Put the media listener behind "
    "the proxy too, and its https:// address into RTMPWEB_MEDIA_URL."
)


@require_POST
@require_ability(Ability.VIEW)
def preview(request: HttpRequest, app: str, name: str) -> HttpResponse:
    """URLs by which the stream can be looked at, if that begins within a minute, whoever else may play it.

    They bear a token: asked for when a preview begins, and never a part of a page.
    """
    row = stream_row(app, name)
    found = playlinks.preview(stream=row, page=page_host(request))
    if found is None or (request.is_secure() and not found.flv_url.startswith("https:")):
        return JsonResponse({"detail": OFF if found is None else PLAIN}, status=503)
    answer = JsonResponse({"ws_url": found.ws_url, "flv_url": found.flv_url})
    answer["Cache-Control"] = "private, no-store"
    return answer


def page_host(request: HttpRequest) -> str:
    """The host by which the browser reaches the dashboard, without a port."""
    return urlsplit(f"//{request.get_host()}").hostname or paste.url_host("")


def allow_preview(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """Lets the page, and no other, get media from the media listener; mpegts.js hands it to the browser as a blob."""
    origins = playlinks.media_origins(page_host(request))
    if origins:
        response._csp_update = {"connect-src": origins, "media-src": [SELF, "blob:"]}  # type: ignore[attr-defined]
    return response
