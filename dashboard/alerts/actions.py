"""What people do with rules, webhooks, services and deliveries: the forms, and each act with its entry of the audit
log, in one transaction."""

import re
from typing import Any
from urllib.parse import urlsplit

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone
from django.utils.html import format_html

from dashboard.alerts import evaluation, messages
from dashboard.alerts.kinds import KINDS
from dashboard.models import ADDRESSED, AlertRule, waking_kinds
from ingest.addresses import is_private
from ingest.contracts.figures import CHECK_NAMES
from ingest.delivery import engine, services
from ingest.delivery.service_kinds import KINDS as SERVICE_KINDS
from ingest.models import Application, Delivery, OutboxEvent, Service, Stream, Webhook
from ingest.models.deliveries import new_salt
from ingest.models.hours import DAYS
from ingest.services import audit
from ingest.services.audit import Actor
from ingest.tasks import deliver_soon


class Boxes(forms.MultipleChoiceField):
    """Some of a few, as a list of texts."""

    widget = forms.CheckboxSelectMultiple


class Days(Boxes):
    def clean(self, value: Any) -> list[int]:
        return sorted(int(day) for day in super().clean(value))

    def prepare_value(self, value: Any) -> list[str]:
        return [str(day) for day in value or ()]


class ScopeForm(forms.Form):
    """Which streams something is about."""

    applications = forms.ModelMultipleChoiceField(
        Application.objects.all(), required=False, widget=forms.CheckboxSelectMultiple
    )
    streams = forms.ModelMultipleChoiceField(
        Stream.objects.select_related("application"),
        required=False,
        widget=forms.SelectMultiple(attrs={"size": 6}),
        help_text="Hold Ctrl or ⌘ to choose several. Neither applications nor streams: all.",
    )


class WebhookForm(ScopeForm, forms.ModelForm[Webhook]):
    kinds = Boxes(
        label="Events",
        choices=OutboxEvent.Kind.choices,
        required=False,
        help_text="None chosen: all. Alerts are sent where a rule names it, whatever is chosen here.",
    )

    class Meta:
        model = Webhook
        fields = ("name", "url", "enabled", "kinds", "applications", "streams")
        help_texts = {
            "url": "Receives a POST with JSON. Its certificate is checked; redirects are not followed.",
            "enabled": "While off, no new events are queued; queued ones are still sent later.",
        }
        error_messages = {"name": {"unique": "Another webhook has this name: take another."}}

    def clean_url(self) -> str:
        url: str = self.cleaned_data["url"]
        if is_private(url) and not settings.WEBHOOK_PRIVATE:
            raise ValidationError(PRIVATE)
        return url


PRIVATE = "This is an address of a private network or of this machine. RTMPWEB_WEBHOOK_PRIVATE=1 allows those."


class ServiceForm(forms.ModelForm[Service]):
    """Of one kind: its name, what that kind is filled in with, and whether it is on. Secrets that are kept are not
    shown; what is left empty stays.
    """

    class Meta:
        model = Service
        fields = ("name", "enabled")
        help_texts = {
            "name": "As rules and deliveries name it, such as #ops.",
            "enabled": "While off, no new alerts are queued; queued ones are still sent later.",
        }
        error_messages = {"name": {"unique": "Another service has this name: take another."}}

    def __init__(self, data: Any = None, *, instance: Service) -> None:
        super().__init__(data, instance=instance)
        self.of_kind = SERVICE_KINDS[instance.kind]
        self.kept = _kept(instance) if instance.pk else {}
        for each in self.of_kind.fields:
            is_kept = each.is_secret and each.name in self.kept
            hint = _saved(services.end_of_secret(self.kept[each.name])) if is_kept else each.hint
            initial = "" if each.is_secret else self.kept.get(each.name, each.default)
            common: dict[str, Any] = {"label": each.label, "initial": initial, "help_text": hint}
            if each.choices:
                self.fields[each.name] = forms.ChoiceField(choices=each.choices, **common)
                continue
            example = "Unchanged" if is_kept else each.example
            shown = {"placeholder": example, "autocomplete": "off", "spellcheck": "false"}
            self.fields[each.name] = forms.CharField(
                max_length=500, required=each.is_required and not is_kept, widget=forms.TextInput(shown), **common
            )
        self.order_fields(["name", *(each.name for each in self.of_kind.fields), "enabled"])

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        for each in self.of_kind.fields:
            given = values.get(each.name) or ""
            if given and not re.fullmatch(each.pattern, given):
                self.add_error(each.name, f"This is no {each.label} of {self.instance.get_kind_display()}'s.")
        server = values.get("server") or ""
        if server and not _has_host(server):
            self.add_error("server", "Enter the server's host, and its port if it has another, as in the example.")
        elif server and is_private(server) and not settings.WEBHOOK_PRIVATE:
            self.add_error("server", PRIVATE)
        if server and server != self.kept.get("server", server) and not values.get("topic"):
            self.add_error("topic", "The server is another: enter the topic, and the access token, again.")
        return values

    def save(self, commit: bool = True) -> Service:
        given = {each.name: self.cleaned_data[each.name] for each in self.of_kind.fields}
        moved = given.get("server") != self.kept.get("server")
        kept = {} if moved else self.kept
        services.keep(self.instance, {name: value or kept.get(name, "") for name, value in given.items()})
        return super().save(commit)


def _has_host(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:  # [ without ], or a port that is none.
        return False


def _saved(end: str) -> str:
    return f"Saved{f', ending in {end}' if end else ''}. Leave it empty to keep it."


def _kept(service: Service) -> dict[str, str]:
    """All that was entered; of one whose secrets can't be read the rest."""
    try:
        return services.values_of(service)
    except ValueError:
        return dict(service.options)


class RuleForm(ScopeForm, forms.ModelForm[AlertRule]):
    field_order = ("name", "enabled", "kinds", "emails", "services", "webhooks", "level", "checks")
    """What it is about and for whom; then the rest, which may stay as it is."""
    kinds = Boxes(
        label="Alert on",
        choices=[(kind.code, format_html("{} <small>{}</small>", kind.label, kind.help)) for kind in KINDS.values()],
        initial=waking_kinds,
        error_messages={"required": "Choose at least one."},
    )
    checks = Boxes(
        choices=[*CHECK_NAMES.items()],
        required=False,
        help_text="Of health issues only. None chosen: every check.",
    )
    days = Days(
        choices=[(str(number), name) for number, name in enumerate(DAYS)],
        required=False,
        help_text="The day on which the hours begin. None chosen: every day.",
    )
    webhooks = forms.ModelMultipleChoiceField(
        Webhook.objects.all(), required=False, widget=forms.CheckboxSelectMultiple
    )
    services = forms.ModelMultipleChoiceField(
        Service.objects.all(), required=False, widget=forms.CheckboxSelectMultiple
    )

    class Meta:
        model = AlertRule
        fields = (
            *("name", "enabled", "kinds", "checks", "level", "applications", "streams", "days", "from_time"),
            *("until_time", "time_zone", "delay_s", "repeat_min", "emails", "services", "webhooks"),
        )
        help_texts = {
            "level": "Of health issues only.",
            "until_time": "22:00 until 06:00 goes over midnight.",
            "emails": "One address per line or comma.",
        }
        widgets = {
            "from_time": forms.TimeInput(attrs={"type": "time"}, format="%H:%M"),
            "until_time": forms.TimeInput(attrs={"type": "time"}, format="%H:%M"),
            "emails": forms.Textarea(attrs={"rows": 2}),
        }

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        for kind in (KINDS[code] for code in values.get("kinds", ())):
            has_hours = values.get("days") or values.get("from_time")
            if kind.needs_streams and has_hours and not (values.get("streams") or values.get("applications")):
                raise ValidationError(f"{kind.label}, in hours of the rule: choose the streams or applications.")
        if not any(values.get(field) for field in (*ADDRESSED.values(), "services", "webhooks")):
            raise ValidationError("Add a recipient: an e-mail address, a service or a webhook.")
        if bool(values.get("from_time")) != bool(values.get("until_time")):
            raise ValidationError("Hours need a beginning and an end.")
        return values


SUBJECTS: dict[type, str] = {AlertRule: "alert_rule", Service: "service", Webhook: "webhook"}
"""By what is made, changed and deleted: its name in the audit log."""


@transaction.atomic
def save(form: RuleForm | ServiceForm | WebhookForm, actor: Actor) -> AlertRule | Service | Webhook:
    verb = "change" if form.instance.pk else "create"
    if isinstance(form.instance, AlertRule):
        form.instance.unjudged_since = timezone.now()
    row = form.save()
    if isinstance(row, AlertRule) and not row.enabled:
        evaluation.rule_disabled(row, timezone.now())
    audit.record(actor, f"{SUBJECTS[type(row)]}.{verb}", row.name, changed=sorted(form.changed_data))
    return row


@transaction.atomic
def delete(row: AlertRule | Service | Webhook, actor: Actor) -> None:
    """A rule with its alerts: what waits to be delivered of them is delivered all the same. A webhook or service with
    its deliveries, whether they arrived or not.
    """
    if isinstance(row, AlertRule):
        evaluation.rule_disabled(row, timezone.now(), "The rule was deleted.")
    audit.record(actor, f"{SUBJECTS[type(row)]}.delete", row.name)
    row.delete()


@transaction.atomic
def rotate_secret(webhook: Webhook, actor: Actor) -> Webhook:
    """Gives it a new secret, by which all is signed from now on."""
    webhook.salt = new_salt()
    webhook.save(update_fields=["salt"])
    audit.record(actor, "webhook.rotate", webhook.name)
    return webhook


@transaction.atomic
def send_test(to: Webhook | Service, actor: Actor) -> Delivery:
    message = messages.test_delivery(to)
    engine.enqueue([message])
    audit.record(actor, f"{SUBJECTS[type(to)]}.test", to.name)
    deliver_soon(message.channel, message.receiver_id)
    return message


@transaction.atomic
def send_again(row: Delivery, actor: Actor) -> bool:
    """False: it is being sent just now."""
    if not engine.requeue(Delivery.objects.filter(pk=row.pk)):
        return False
    audit.record(actor, "delivery.send_again", str(row), delivery=str(row.pk))
    deliver_soon(row.channel, row.receiver_id)
    return True
