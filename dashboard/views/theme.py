"""The theme switch: a cookie that the server reads, so that no page is painted in the wrong theme first."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

THEME_COOKIE = "theme"
THEMES = ("light", "dark")
YEAR_S = 365 * 24 * 3600


@require_POST
def theme(request: HttpRequest) -> HttpResponse:
    """Keep `theme` (light, dark; anything else: follow the system), and go back to the page `next`."""
    response = HttpResponseRedirect(way_back(request))
    chosen = request.POST.get("theme", "")
    if chosen in THEMES:
        # Not HttpOnly: the page's own script may set it too, to switch without a round trip.
        response.set_cookie(THEME_COOKIE, chosen, max_age=YEAR_S, samesite="Lax", secure=settings.SESSION_COOKIE_SECURE)
    else:
        response.delete_cookie(THEME_COOKIE, samesite="Lax")
    return response


def way_back(request: HttpRequest) -> str:
    """The page `next`, if it is one of ours."""
    back = request.POST.get("next") or request.GET.get("next", "")
    ours = url_has_allowed_host_and_scheme(back, {request.get_host()}, request.is_secure())
    return back if ours else reverse("dashboard:wall")
