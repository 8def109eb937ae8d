"""Alerts, the rules by which somebody is told, webhooks and services, and the log of what was delivered.

A webhook's secret is in the answer to its making or rotation, and nowhere else; of a service's the last characters are
shown."""

import uuid
from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from dashboard import zones
from dashboard.access import actor_of, post_view, require_ability, safe_view
from dashboard.alerts import actions as alerts_actions
from dashboard.alerts import queries as alerts_queries
from dashboard.alerts.actions import RuleForm, ServiceForm, WebhookForm
from dashboard.lists import active_filters, answer, answer_action, narrow, page_context
from dashboard.models import AlertRule, Mute
from dashboard.streams import silences
from dashboard.streams.actions import NOTE_LENGTH, ActionProblem
from ingest.contracts.figures import CHECK_NAMES
from ingest.delivery.email import is_mail_set
from ingest.delivery.service_kinds import KINDS as SERVICE_KINDS
from ingest.delivery.webhook import secret_of
from ingest.models import Application, Delivery, Service, Webhook
from ingest.services.roles import Ability


@safe_view(Ability.VIEW)
def alerts(request: HttpRequest) -> HttpResponse:
    over = alerts_queries.alerts().filter(cleared_at__isnull=False)
    rows = alerts_queries.rules()
    rules = [row.rule for row in rows]
    context = page_context(request, over, {}) | {
        "open": alerts_queries.open_alerts(),
        "rules": rows,
        "is_watched": any(rule.enabled for rule in rules),
        "webhooks": [(webhook, alerts_queries.scope(webhook)) for webhook in alerts_queries.webhooks()],
        "services": list(alerts_queries.services()),
        "silences": silences.shown(),
        "applications": list(Application.objects.values_list("name", flat=True)),
        "checks": CHECK_NAMES,
        "note_length": NOTE_LENGTH,
        "mail_is_missing": not is_mail_set() and any(rule.emails for rule in rules),
    }
    return render(request, "dashboard/alerts.html", context)


FORMS: dict[str, Callable[..., RuleForm | WebhookForm]] = {"rule": RuleForm, "webhook": WebhookForm}


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@require_ability(Ability.MANAGE_ALERTS)
def edit(request: HttpRequest, kind: str, pk: int | None = None) -> HttpResponse:
    """Makes or changes a rule or a webhook; of a new webhook it shows the secret, once."""
    row = _row(kind, pk) if pk is not None else None
    initial = _first_values(request) if kind == "rule" and row is None else None
    form = FORMS[kind](request.POST if request.method == "POST" else None, instance=row, initial=initial)
    if request.method == "POST" and form.is_valid():
        saved = alerts_actions.save(form, actor_of(request))
        if row is None and isinstance(saved, Webhook):
            return _secret(request, saved)
        return done(request, f"The {kind} {saved.name} is saved.")
    context: dict[str, Any] = {"form": form, "row": row, "kind": kind}
    return render(request, "dashboard/alert_form.html", context, status=422 if form.errors else 200)


def _first_values(request: HttpRequest) -> dict[str, str]:
    """Of a new rule, beside the model's defaults, which are what would wake somebody: ?preset=wake, and it is complete
    but for who else is to be notified.
    """
    values = {"time_zone": zones.of(request).name}
    if request.GET.get("preset") == "wake":
        values |= {"name": "What would wake you", "emails": getattr(request.user, "email", "")}
    return values


@post_view(Ability.MANAGE_ALERTS)
def delete(request: HttpRequest, kind: str, pk: int) -> HttpResponse:
    row = _row(kind, pk)
    alerts_actions.delete(row, actor_of(request))
    return done(request, f"The {kind} {row.name} is deleted.")


def _row(kind: str, pk: int) -> AlertRule | Webhook:
    return get_object_or_404(AlertRule, pk=pk) if kind == "rule" else get_object_or_404(Webhook, pk=pk)


def done(request: HttpRequest, words: str) -> HttpResponse:
    messages.success(request, words)
    return HttpResponseRedirect(reverse("dashboard:alerts"))


EVERYTHING = "*"
"""In place of an application's name."""


@post_view(Ability.NOTE)
def silence(request: HttpRequest) -> HttpResponse:
    """Of an application `of`, or of everything ("*"), for a `length`."""
    given = request.POST
    of, check = given.get("of", ""), given.get("check", "")
    target = Application.objects.filter(name=of).first()

    def act() -> None:
        if target is None and of != EVERYTHING:
            raise ActionProblem("There is no such application: choose one, or everything.")
        until = silences.end_of_form(given.get("length", ""), given.get("at", ""), timezone.now())
        silences.silence(target, actor_of(request), check=check, until=until, note=given.get("note", ""))

    return answer_action(request, act, ActionProblem, "Alerts are silenced.", 201, reverse("dashboard:alerts"))


@post_view(Ability.NOTE)
def lift(request: HttpRequest, pk: int) -> HttpResponse:
    lifted = silences.lift(get_object_or_404(Mute, pk=pk), actor_of(request))
    words = "Alerts are on again." if lifted else "This silence has ended already."
    return answer(request, words, 200, reverse("dashboard:alerts"))


SERVICE_SHOWN = 5
"""Deliveries on a service's page."""


@safe_view(Ability.MANAGE_ALERTS)
def choose_service(request: HttpRequest) -> HttpResponse:
    return render(request, "dashboard/service_kinds.html", {"kinds": Service.Kind.choices})


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@require_ability(Ability.MANAGE_ALERTS)
def service(request: HttpRequest, pk: int | None = None, kind: str = "") -> HttpResponse:
    """Makes one of a kind, or changes one."""
    if pk is None and kind not in SERVICE_KINDS:
        raise Http404
    row = Service(kind=kind) if pk is None else get_object_or_404(Service, pk=pk)
    form = ServiceForm(request.POST if request.method == "POST" else None, instance=row)
    if request.method == "POST" and form.is_valid():
        saved = alerts_actions.save(form, actor_of(request))
        messages.success(request, f"{saved.name} is saved. Send a test message, then choose it in a rule.")
        return _service_page(saved.pk)
    context = {
        "form": form,
        "row": row if pk is not None else None,
        "kind": row.get_kind_display(),
        "steps": SERVICE_KINDS[row.kind].steps,
        "deliveries": alerts_queries.deliveries().filter(service=pk)[:SERVICE_SHOWN] if pk is not None else (),
    }
    return render(request, "dashboard/service.html", context, status=422 if form.errors else 200)


@post_view(Ability.MANAGE_ALERTS)
def test_service(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(Service, pk=pk)
    if row.enabled:
        alerts_actions.send_test(row, actor_of(request))
        messages.info(request, "A test message is on its way: what became of it shows below.")
    else:
        messages.warning(request, f"{row.name} is off: nothing is sent to it. Switch it on and save first.")
    return _service_page(pk)


@post_view(Ability.MANAGE_ALERTS)
def delete_service(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(Service, pk=pk)
    alerts_actions.delete(row, actor_of(request))
    return done(request, f"{row.name} is deleted.")


def _service_page(pk: int) -> HttpResponse:
    return HttpResponseRedirect(reverse("dashboard:service", args=[pk]))


LOOKUPS = {"webhook": "webhook__name", "service": "service__name", "state": "state", "kind": "kind"}


@never_cache
@post_view(Ability.MANAGE_ALERTS)
def rotate_webhook(request: HttpRequest, pk: int) -> HttpResponse:
    return _secret(request, alerts_actions.rotate_secret(get_object_or_404(Webhook, pk=pk), actor_of(request)))


def _secret(request: HttpRequest, row: Webhook) -> HttpResponse:
    return render(request, "dashboard/webhook_secret.html", {"webhook": row, "secret": secret_of(row)})


@post_view(Ability.MANAGE_ALERTS)
def test_webhook(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(Webhook, pk=pk)
    alerts_actions.send_test(row, actor_of(request))
    messages.info(request, f"A test event is on its way to {row.name}: the answer shows here in a few seconds.")
    return HttpResponseRedirect(reverse("dashboard:alert-deliveries"))


@safe_view(Ability.VIEW)
def deliveries(request: HttpRequest) -> HttpResponse:
    filters, rows = active_filters(request.GET, LOOKUPS), alerts_queries.deliveries()
    context = page_context(request, narrow(rows, LOOKUPS, filters), filters) | {
        "webhooks": list(Webhook.objects.values_list("name", flat=True)),
        "services": list(Service.objects.values_list("name", flat=True)),
        "states": Delivery.State.choices,
        "kinds": list(rows.order_by("kind").values_list("kind", flat=True).distinct()),
    }
    return render(request, "dashboard/alert_deliveries.html", context)


@post_view(Ability.MANAGE_ALERTS)
def send_again(request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
    row = get_object_or_404(alerts_queries.deliveries(), pk=pk)
    if alerts_actions.send_again(row, actor_of(request)):
        messages.info(request, f"It is sent to {row.receiver} again.")
    else:
        messages.warning(request, "It is being sent just now.")
    return HttpResponseRedirect(reverse("dashboard:alert-deliveries"))
