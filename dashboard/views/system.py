"""The page of the installation's parts, and what open pages ask every few seconds to warn of one that is down."""

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.system.watch import get_watch
from dashboard.views.access import require_ability
from ingest.roles import Ability


@require_safe
@require_ability(Ability.VIEW)
def system(request: HttpRequest) -> HttpResponse:
    """Every part with its state, since when, and what to do."""
    shown = {"report": get_watch().report(), "alarms": []}  # No banner: the table says it all.
    return render(request, "dashboard/system.html", shown)


@require_safe
@never_cache
@require_ability(Ability.VIEW)
def alarms(request: HttpRequest) -> JsonResponse:
    """`{"items": [part, ...], "count": N, "bad_streams": N}`: the parts that pages warn of, and how many streams are in
    bad health (null: not known). While the database is away: 503, the same.
    """
    report = get_watch().report()
    items = [part.public() for part in report.alarms]
    return JsonResponse({"items": items, "count": len(items), "bad_streams": report.bad_streams})
