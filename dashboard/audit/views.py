"""Who did what, when, from where: the page and its export."""

from typing import Any

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from dashboard import lists, zones
from dashboard.access import require_ability
from dashboard.audit import queries as audit_queries
from ingest.services.roles import Ability

PAGE_SIZE = 50

MOST_EXPORTED = 10_000
"""Entries of one export, the newest: more of them by narrower filters, or by the API's pages."""

SHOWN = ("actor", "action", "address", "app", "name", "q", "since", "until")


@require_safe
@require_ability(Ability.SEE_AUDIT)
def audit(request: HttpRequest) -> HttpResponse:
    """Newest first, by pages. `since` and `until` are days, both included. What can't be understood filters nothing."""
    filters = _filters(request)
    query = request.GET.copy()
    query.pop("page", None)
    return render(
        request,
        "dashboard/audit.html",
        {
            "page": Paginator(_rows(filters), PAGE_SIZE).get_page(request.GET.get("page")),
            "filters": filters,
            "is_filtered": any(filters.values()),
            "actions": audit_queries.actions(),
            "actors": audit_queries.actors(),
            "query": query.urlencode(),
        },
    )


@require_safe
@require_ability(Ability.SEE_AUDIT)
def export(request: HttpRequest) -> StreamingHttpResponse:
    """What the filters leave, as `format` says: csv or json; newest first, MOST_EXPORTED at most."""
    rows = _rows(_filters(request))[:MOST_EXPORTED].iterator(lists.CHUNK_ROWS)
    found = (audit_queries.as_dict(entry) for entry in rows)
    name = f"audit-{timezone.now():%Y%m%dT%H%M%SZ}"
    if request.GET.get("format") == "json":
        return lists.json_answer(name, found)
    return lists.csv_answer(name, audit_queries.FIELDS, (tuple(entry.values()) for entry in found))


def _filters(request: HttpRequest) -> dict[str, str]:
    return {name: request.GET.get(name, "").strip().replace("\0", "")[:255] for name in SHOWN}


def _rows(filters: dict[str, str]) -> Any:
    since, until = zones.days(filters["since"], filters["until"])
    values: dict[str, Any] = filters | {"since": since, "until": until}
    del values["q"]
    return audit_queries.rows(values, text=filters["q"])
