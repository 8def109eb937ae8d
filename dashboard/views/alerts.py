"""Alerts: what is open, what was, and the rules by which somebody is told."""

from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from dashboard.actors import actor_of
from dashboard.alerting import managing, showing
from dashboard.alerting.forms import RuleForm
from dashboard.alerting.models import AlertRule
from dashboard.views.access import require_ability
from ingest import mailing
from ingest.roles import Ability

PAGE_SIZE = 50


@require_safe
@require_ability(Ability.VIEW)
def alerts(request: HttpRequest) -> HttpResponse:
    """Open ones, then rules and webhooks, then what is over, by pages."""
    over = showing.alerts().filter(cleared_at__isnull=False)
    rules = [(rule, showing.scope(rule), showing.hours(rule)) for rule in showing.rules()]
    return render(
        request,
        "dashboard/alerts.html",
        {
            "open": showing.open_alerts(),
            "page": Paginator(over, PAGE_SIZE).get_page(request.GET.get("page")),
            "rules": rules,
            "is_watched": any(rule.enabled for rule, _, _ in rules),
            "webhooks": [(webhook, showing.scope(webhook)) for webhook in showing.webhooks()],
            "mail_is_missing": not mailing.is_set() and any(rule.emails for rule, _, _ in rules),
        },
    )


@require_http_methods(["GET", "HEAD", "POST"])
@require_ability(Ability.MANAGE_ALERTS)
def rule(request: HttpRequest, pk: int | None = None) -> HttpResponse:
    """Makes a rule, or changes one."""
    row = get_object_or_404(AlertRule, pk=pk) if pk is not None else None
    form = RuleForm(request.POST if request.method == "POST" else None, instance=row)
    if request.method == "POST" and form.is_valid():
        saved = managing.save_rule(form, actor_of(request))
        return done(request, f"The rule {saved.name} is saved.")
    context: dict[str, Any] = {"form": form, "row": row, "what": "rule"}
    return render(request, "dashboard/alert_form.html", context, status=422 if form.errors else 200)


@require_POST
@require_ability(Ability.MANAGE_ALERTS)
def delete_rule(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(AlertRule, pk=pk)
    managing.delete_rule(row, actor_of(request))
    return done(request, f"The rule {row.name} is deleted.")


def done(request: HttpRequest, words: str) -> HttpResponse:
    messages.success(request, words)
    return HttpResponseRedirect(reverse("dashboard:alerts"))
