"""What every page's shell needs: the theme, the time zone, the navigation, the user's role and abilities."""

from typing import Any

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from dashboard import zones
from dashboard.navigation import navigation
from dashboard.system.watch import get_watch
from dashboard.views.access import request_abilities
from dashboard.views.theme import THEME_COOKIE, THEMES
from ingest.roles import ROLES


def _role(request: HttpRequest) -> str:
    user = request.user
    if not user.is_authenticated:
        return ""
    if user.is_superuser:
        return "admin"
    return ", ".join(user.groups.filter(name__in=ROLES).order_by("name").values_list("name", flat=True)) or "no role"


def ui(request: HttpRequest) -> dict[str, Any]:
    """The context processor; what costs a query is looked up only by templates that show it."""
    theme = request.COOKIES.get(THEME_COOKIE, "")
    return {
        "theme": theme if theme in THEMES else "",
        "zone": zones.of(request),
        "abilities": SimpleLazyObject(lambda: request_abilities(request)),
        "navigation": SimpleLazyObject(lambda: navigation(request, request_abilities(request))),
        "bad_streams": SimpleLazyObject(lambda: get_watch().report().bad_streams or 0),
        "alarms": SimpleLazyObject(lambda: get_watch().report().alarms),
        "role": SimpleLazyObject(lambda: _role(request)),
    }
