"""Refused connects, publishes and plays: the page that answers "why doesn't it work?"."""

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_POST, require_safe

from dashboard.access import actor_of, require_ability
from dashboard.attempts.queries import WITHIN, Choice, banned_until
from ingest.models import Application, Attempt
from ingest.services import actions as services_actions
from ingest.services.roles import Ability

PAGE_SIZE = 50


@require_safe
@require_ability(Ability.VIEW)
def attempts(request: HttpRequest) -> HttpResponse:
    """Newest first, by pages; what is refused meanwhile comes by /ws/attempts/."""
    choice = Choice.of(request.GET)
    page = Paginator(choice.rows(), PAGE_SIZE).get_page(request.GET.get("page"))
    banned = banned_until({row.address for row in page})
    query = request.GET.copy()
    query.pop("page", None)
    others = query.copy()
    others.pop("reason", None)
    return render(
        request,
        "dashboard/attempts.html",
        {
            "live_page": True,
            "page": page,
            "rows": [(row, banned.get(row.address)) for row in page],
            "counted": choice.reasons(),
            "filters": choice.shown,
            "is_filtered": choice.is_filtered,
            "apps": list(Application.objects.values_list("name", flat=True)),
            "reasons": list(Attempt.objects.order_by("reason").values_list("reason", flat=True).distinct()),
            "actions": Attempt.Action.values,
            "within": WITHIN,
            "query": query.urlencode(),
            "other_filters": others.urlencode(),
            "bootstrap": {"ws": "/ws/attempts/", "live": page.number == 1},
        },
    )


@require_POST
@require_ability(Ability.LIFT_BANS)
def lift(request: HttpRequest) -> HttpResponse:
    """Hear the `address` again. 400 for what is no address, 404 where none is banned."""
    address = request.POST.get("address", "").strip()[:64]
    try:
        lifted = services_actions.lift_bans(actor_of(request), [address])
    except ValidationError as problem:
        words, status = " ".join(problem.messages), 400
    else:
        words = f"{address} is heard again within 2 s." if lifted else f"{address} is not banned."
        status = 200 if lifted else 404
    if request.accepts("text/html"):
        messages.add_message(request, messages.SUCCESS if status == 200 else messages.WARNING, words)
        query = urlencode({"address": address}) if status == 200 else ""
        return HttpResponseRedirect(f"{reverse('dashboard:attempts')}{'?' if query else ''}{query}")
    return JsonResponse({"detail": words}, status=status)
