"""What every page's shell needs: the theme, the navigation and the user's role."""

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.functional import SimpleLazyObject

from dashboard.permissions import ROLES, Ability
from dashboard.views.access import request_abilities
from dashboard.views.theme import THEME_COOKIE, THEMES


@dataclass(frozen=True, slots=True)
class Page:
    """A page that the navigation leads to, for those with the ability."""

    label: str
    icon: str
    view: str
    ability: Ability
    staff_only: bool = False


PAGES = (
    Page("Wall", "wall", "dashboard:wall", Ability.VIEW),
    Page("Attempts", "ban", "dashboard:attempts", Ability.VIEW),
    Page("Analytics", "analytics", "dashboard:analytics", Ability.VIEW),
    Page("Keys", "keys", "admin:ingest_streamkey_changelist", Ability.MANAGE_KEYS, staff_only=True),
)


@dataclass(frozen=True, slots=True)
class NavigationItem:
    label: str
    icon: str
    url: str
    current: bool


def _navigation(request: HttpRequest) -> list[NavigationItem]:
    abilities = request_abilities(request)
    items = []
    for page in PAGES:
        if page.ability not in abilities or (page.staff_only and not request.user.is_staff):
            continue
        try:
            url = reverse(page.view)
        except NoReverseMatch:
            continue
        items.append(NavigationItem(page.label, page.icon, url, _is_current(request, page.view, url)))
    return items


def _is_current(request: HttpRequest, view: str, url: str) -> bool:
    """Whether the page is the shown one, or the one that it belongs to: a stream belongs to the wall."""
    match = request.resolver_match
    if match is None:
        return False
    if view == "dashboard:wall":
        return match.view_name in ("dashboard:wall", "dashboard:stream")
    return request.path.startswith(url)


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
        "navigation": SimpleLazyObject(lambda: _navigation(request)),
        "role": SimpleLazyObject(lambda: _role(request)),
    }
