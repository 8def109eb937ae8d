"""The picture of a live stream's last keyframe, as nodes put it into the LiveStore."""

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.cache import get_conditional_response
from django.views.decorators.http import require_safe

from dashboard.views.access import require_ability
from ingest.livestore import get_livestore
from ingest.roles import Ability

MAX_AGE_S = 900


@require_safe
@require_ability(Ability.VIEW)
def thumbnail(request: HttpRequest, app: str, name: str) -> HttpResponseBase:
    """WebP; 404 where there is none. Under `?v=` and the number that the stream's snapshot names it never changes."""
    found = get_livestore().thumbnail(f"{app}/{name}")
    if found is None:
        return HttpResponse("There is no picture.", status=404, content_type="text/plain")
    etag = f'"{found.at_ms}"'
    response = HttpResponse(found.image, content_type="image/webp")
    response["ETag"] = etag
    is_version = request.GET.get("v") == str(found.at_ms)
    response["Cache-Control"] = f"private, max-age={MAX_AGE_S}, immutable" if is_version else "private, no-cache"
    return get_conditional_response(request, etag=etag, response=response) or response
