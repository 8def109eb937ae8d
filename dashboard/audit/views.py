"""Who did what, when, from where: the page and its export."""

from typing import Any

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.utils import timezone

from dashboard import zones
from dashboard.access import safe_view
from dashboard.audit import queries as audit_queries
from dashboard.lists import CHUNK_ROWS, active_filters, file_answer, page_context
from ingest.services.roles import Ability

MAX_EXPORTED = 10_000
"""Entries of one export, the newest: more of them by narrower filters, or by the API's pages."""

SHOWN = ("actor", "action", "address", "app", "name", "q", "since", "until")


@safe_view(Ability.SEE_AUDIT)
def audit(request: HttpRequest) -> HttpResponse:
    """Newest first, by pages. `since` and `until` are days, both included. What can't be understood filters nothing."""
    filters = active_filters(request.GET, SHOWN)
    return render(
        request,
        "dashboard/audit.html",
        page_context(request, _rows(filters), filters)
        | {"actions": audit_queries.known("action"), "actors": audit_queries.known("actor")},
    )


@safe_view(Ability.SEE_AUDIT)
def export(request: HttpRequest) -> StreamingHttpResponse:
    """What the filters leave, as `format` says: csv or json; newest first, MAX_EXPORTED at most."""
    rows = _rows(active_filters(request.GET, SHOWN))[:MAX_EXPORTED].iterator(CHUNK_ROWS)
    found = (audit_queries.as_dict(entry) for entry in rows)
    name = f"audit-{timezone.now():%Y%m%dT%H%M%SZ}"
    return file_answer(name, request.GET.get("format", ""), audit_queries.FIELDS, found)


def _rows(filters: dict[str, str]) -> Any:
    since, until = zones.days(filters["since"], filters["until"])
    return audit_queries.rows({**filters, "since": since, "until": until}, text=filters["q"])
