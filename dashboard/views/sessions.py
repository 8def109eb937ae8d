"""Sessions: the list with its search, what it finds as a file, and two of them side by side."""

from collections.abc import Iterator
from typing import Any

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from dashboard import exports
from dashboard.sessions.compare import Pair
from dashboard.sessions.export import FIELDS, MOST_ROWS, session_values
from dashboard.sessions.rows import SessionRow
from dashboard.sessions.search import ORDERS, Search
from dashboard.streams import Now
from dashboard.templatetags.ui import END_WORDS
from dashboard.views.access import require_ability
from ingest.models import Node, Session
from ingest.roles import Ability


@require_safe
@require_ability(Ability.VIEW)
def sessions(request: HttpRequest) -> HttpResponse:
    """By pages. htmx gets the results alone."""
    search = Search.of(request.GET)
    page = search.page(request.GET.get("before", ""))
    now = Now.read()
    query = request.GET.copy()
    query.pop("before", None)
    context: dict[str, Any] = {
        "search": search,
        "filters": search.shown,
        "rows": [SessionRow.of(row, now) for row in page.rows],
        "page": page,
        "at": timezone.now(),
        "query": query.urlencode(),
    }
    if request.headers.get("HX-Request") == "true":
        return render(request, "dashboard/_sessions.html", context)
    context |= {
        "nodes": list(Node.objects.values_list("name", flat=True)),
        "reasons": END_WORDS.items(),
        "orders": ORDERS.items(),
        "is_empty": not search.is_filtered and not Session.objects.exists(),
        "most_rows": MOST_ROWS,
    }
    return render(request, "dashboard/sessions.html", context)


@require_safe
@require_ability(Ability.VIEW)
def export_csv(request: HttpRequest) -> StreamingHttpResponse:
    """What the page's filters find, the last begun first, MOST_ROWS at most."""
    return exports.csv_answer(_name(), FIELDS, (list(values.values()) for values in _found(request)))


@require_safe
@require_ability(Ability.VIEW)
def export_json(request: HttpRequest) -> StreamingHttpResponse:
    """The same as JSON."""
    return exports.json_answer(_name(), _found(request))


def _found(request: HttpRequest) -> Iterator[dict[str, Any]]:
    rows = Search.of(request.GET).rows()[:MOST_ROWS].iterator(exports.CHUNK_ROWS)
    return (session_values(row) for row in rows)


def _name() -> str:
    return f"sessions-{timezone.now():%Y%m%d-%H%M}"


@require_safe
@require_ability(Ability.VIEW)
def compare(request: HttpRequest) -> HttpResponse:
    """Two sessions by `a` and `b`. Where one is missing or unknown, the page says how to choose."""
    pair = Pair.of(request.GET.get("a", ""), request.GET.get("b", ""))
    return render(request, "dashboard/sessions_compare.html", {"pair": pair})
