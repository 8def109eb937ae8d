"""What every page's shell needs: the theme, the time zone, the user's role and abilities, and the navigation with one
row for each page that it leads to."""

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import SimpleLazyObject

from dashboard import zones
from dashboard.access import request_abilities
from dashboard.accounts import THEME_COOKIE, THEMES, refused_seen_at
from dashboard.system.watch import get_watch
from ingest.services.roles import ROLES, Ability


@dataclass(frozen=True, slots=True)
class Page:
    """A page for those with the ability. It is the current one on the views whose names begin with one of `owns`."""

    label: str
    icon: str
    view: str
    needs: Ability
    owns: tuple[str, ...]
    tab: bool = True
    """Whether it is among the few tabs of a phone; else it is under More."""
    group: int = 0
    """Pages of one group stand together."""
    short: str = ""
    """Its label where there is little room: on tabs, and in the narrow rail. "": the same."""


PAGES = (
    Page("Wall", "wall", "dashboard:wall", Ability.VIEW, ("dashboard:wall", "dashboard:stream")),
    Page("Sessions", "sessions", "dashboard:sessions", Ability.VIEW, ("dashboard:session",)),
    Page("Refused connections", "ban", "dashboard:attempts", Ability.VIEW, ("dashboard:attempts",), short="Refused"),
    Page("Keys", "keys", "dashboard:keys", Ability.MANAGE_KEYS, ("dashboard:key",)),
    Page("Recordings", "play", "dashboard:recordings", Ability.VIEW, ("dashboard:recording",), tab=False),
    Page("Analytics", "analytics", "dashboard:analytics", Ability.VIEW, ("dashboard:analytics",), tab=False),
    Page("Reports", "reports", "dashboard:reports", Ability.VIEW, ("dashboard:report",), tab=False),
    Page(
        "Alerts",
        "mail",
        "dashboard:alerts",
        Ability.VIEW,
        ("dashboard:alert", "dashboard:webhook", "dashboard:service"),
        tab=False,
    ),
    Page(
        "Analytics jobs", "jobs", "dashboard:jobs", Ability.VIEW, ("dashboard:job",), tab=False, group=1, short="Jobs"
    ),
    Page("Nodes", "nodes", "dashboard:nodes", Ability.VIEW, ("dashboard:node",), tab=False, group=1),
    Page("Audit", "audit", "dashboard:audit", Ability.SEE_AUDIT, ("dashboard:audit",), tab=False, group=1),
    Page("Settings", "settings", "dashboard:settings", Ability.MANAGE_KEYS, ("dashboard:setting",), tab=False, group=1),
    Page("System", "info", "dashboard:system", Ability.VIEW, ("dashboard:system",), tab=False, group=1),
)


@dataclass(frozen=True, slots=True)
class Item:
    label: str
    short: str
    icon: str
    url: str
    current: bool
    tab: bool
    begins_group: bool
    """Whether it begins a group."""


def navigation(request: HttpRequest, abilities: frozenset[Ability]) -> list[Item]:
    match = request.resolver_match
    view = match.view_name if match else ""
    items: list[Item] = []
    group = 0
    for page in PAGES:
        if page.needs not in abilities:
            continue
        current = view.startswith(page.owns)
        items.append(
            Item(
                page.label,
                page.short or page.label,
                page.icon,
                reverse(page.view),
                current,
                page.tab,
                page.group != group,
            )
        )
        group = page.group
    return items


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
        "refused": SimpleLazyObject(lambda: get_watch().report().refused_since(refused_seen_at(request))),
        "alarms": SimpleLazyObject(lambda: get_watch().report().alarms),
        "role": SimpleLazyObject(lambda: _role(request)),
    }
