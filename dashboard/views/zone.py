"""The choice of the time zone: a cookie, as the theme is."""

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.views.decorators.http import require_POST

from dashboard import zones
from dashboard.views.theme import YEAR_S, way_back


@require_POST
def zone(request: HttpRequest) -> HttpResponse:
    """Keep `zone` (a name such as Europe/Berlin; empty: as the browser has it), and go back to the page `next`."""
    response = HttpResponseRedirect(way_back(request))
    name = request.POST.get("zone", "").strip()
    found = zones.named(name)
    if found is not None:
        secure = settings.SESSION_COOKIE_SECURE
        response.set_cookie(zones.CHOSEN, found.key, max_age=YEAR_S, samesite="Lax", secure=secure, httponly=True)
    elif name:
        messages.warning(request, f"There is no time zone {name[:64]!r}. Give one such as Europe/Berlin, or UTC.")
    else:
        response.delete_cookie(zones.CHOSEN, samesite="Lax")
    return response
