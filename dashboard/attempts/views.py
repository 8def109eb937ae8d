"""Refused connects, publishes and plays: the page that answers "why doesn't it work?"."""

from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode

from dashboard.access import actor_of, post_view, safe_view
from dashboard.attempts.queries import WITHIN, AttemptFilter, banned_until
from dashboard.lists import answer, page_context, query_without
from ingest.models import Application, Attempt
from ingest.services import actions as services_actions
from ingest.services.roles import Ability


@safe_view(Ability.VIEW)
def attempts(request: HttpRequest) -> HttpResponse:
    """Newest first, by pages; what is refused meanwhile comes by /ws/attempts/."""
    filters = AttemptFilter.of(request.GET)
    shown = page_context(request, filters.rows(), filters.shown)
    page = shown["page"]
    banned = banned_until({row.address for row in page})
    return render(
        request,
        "dashboard/attempts.html",
        shown
        | {
            "live_page": True,
            "rows": [(row, banned.get(row.address)) for row in page],
            "counted": filters.reasons(),
            "apps": list(Application.objects.values_list("name", flat=True)),
            "reasons": list(Attempt.objects.order_by("reason").values_list("reason", flat=True).distinct()),
            "actions": Attempt.Action.values,
            "within": WITHIN,
            "other_filters": query_without(request, "page", "reason"),
            "bootstrap": {"ws": "/ws/attempts/", "live": page.number == 1},
        },
    )


@post_view(Ability.LIFT_BANS)
def lift(request: HttpRequest) -> HttpResponse:
    """Hear the `address` again. 400 for what is no address, 404 where none is banned."""
    address = request.POST.get("address", "").strip()[:64]
    try:
        lifted = services_actions.lift_bans(actor_of(request), [address])
    except ValidationError as problem:
        words, status = " ".join(problem.messages), 400
    else:
        words = f"{address} can connect again within 2 s." if lifted else f"{address} is not banned."
        status = 200 if lifted else 404
    query = f"?{urlencode({'address': address})}" if status == 200 else ""
    return answer(request, words, status, f"{reverse('dashboard:attempts')}{query}")
