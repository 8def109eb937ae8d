"""Refused connects, publishes and plays: the page that answers "why doesn't it work?"."""

from datetime import UTC, datetime
from typing import Any

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.dateparse import parse_datetime
from django.views.decorators.http import require_safe

from dashboard import history
from dashboard.history import narrow
from dashboard.permissions import Ability
from dashboard.views.access import require_ability
from ingest.models import Attempt

PAGE_SIZE = 50

LOOKUPS = {
    "app": "app",
    "name": "name__contains",
    "reason": "reason",
    "action": "action",
    "address": "address",
    "since": "latest__gte",
    "until": "at__lt",
}


@require_safe
@require_ability(Ability.VIEW)
def attempts(request: HttpRequest) -> HttpResponse:
    """Newest first, by pages; each filter of LOOKUPS may be given. A value that can't be understood filters nothing."""
    shown = {name: request.GET.get(name, "").strip().replace("\0", "")[:255] for name in LOOKUPS}
    values: dict[str, Any] = shown | {"since": _moment(shown["since"]), "until": _moment(shown["until"])}
    rows = narrow(history.attempts(), LOOKUPS, values)
    query = request.GET.copy()
    query.pop("page", None)
    return render(
        request,
        "dashboard/attempts.html",
        {
            "page": Paginator(rows, PAGE_SIZE).get_page(request.GET.get("page")),
            "filters": shown,
            "reasons": list(Attempt.objects.order_by("reason").values_list("reason", flat=True).distinct()),
            "actions": Attempt.Action.values,
            "query": query.urlencode(),
        },
    )


def _moment(text: str) -> datetime | None:
    """An ISO 8601 time, in UTC where it names no zone; None when it is none."""
    try:
        found = parse_datetime(text)
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found and found.tzinfo is None else found
