"""The main navigation: one row for each page that it leads to."""

from dataclasses import dataclass

from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse

from dashboard.permissions import Ability


@dataclass(frozen=True, slots=True)
class Page:
    """A page for those with the ability. It is the current one on the views whose names begin with one of `owns`."""

    label: str
    icon: str
    view: str
    needs: Ability
    owns: tuple[str, ...]
    staff_only: bool = False
    tab: bool = True
    """Whether it is among the few tabs of a phone; else it is under More."""


PAGES = (
    Page("Wall", "wall", "dashboard:wall", Ability.VIEW, ("dashboard:wall", "dashboard:stream")),
    Page("Attempts", "ban", "dashboard:attempts", Ability.VIEW, ("dashboard:attempts",)),
    Page("Analytics", "analytics", "dashboard:analytics", Ability.VIEW, ("dashboard:analytics",)),
    Page("Keys", "keys", "admin:ingest_streamkey_changelist", Ability.MANAGE_KEYS, (), staff_only=True),
    Page("System", "nodes", "dashboard:system", Ability.VIEW, ("dashboard:system",), tab=False),
)


@dataclass(frozen=True, slots=True)
class Item:
    label: str
    icon: str
    url: str
    current: bool
    tab: bool


def navigation(request: HttpRequest, abilities: frozenset[Ability]) -> list[Item]:
    """The pages that the visitor may open."""
    match = request.resolver_match
    view = match.view_name if match else ""
    items = []
    for page in PAGES:
        if page.needs not in abilities or (page.staff_only and not request.user.is_staff):
            continue
        try:
            url = reverse(page.view)
        except NoReverseMatch:  # The part that brings this page is not installed.
            continue
        items.append(Item(page.label, page.icon, url, view.startswith(page.owns), page.tab))
    return items
