"""What people do with rules, webhooks and deliveries: the forms, and each act with its entry of the audit log, in one
transaction."""

from typing import Any

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone
from django.utils.html import format_html

from dashboard.alerts import evaluation, messages
from dashboard.alerts.kinds import KINDS
from dashboard.models import ADDRESSED, AlertRule, waking_kinds
from ingest.contracts.figures import CHECK_NAMES
from ingest.delivery import engine
from ingest.delivery.webhook import is_private
from ingest.models import Application, Delivery, OutboxEvent, Stream, Webhook
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
        help_text="None chosen: all. Alerts reach it where a rule names it, whatever is chosen here.",
    )

    class Meta:
        model = Webhook
        fields = ("name", "url", "enabled", "kinds", "applications", "streams")
        help_texts = {
            "url": "It gets a POST with JSON. Its certificate is checked, redirects are not followed.",
            "enabled": "While it is off nothing new is written for it, and what waits goes on waiting.",
        }
        error_messages = {"name": {"unique": "Another webhook has this name: take another."}}

    def clean_url(self) -> str:
        url: str = self.cleaned_data["url"]
        if is_private(url) and not settings.WEBHOOK_PRIVATE:
            raise ValidationError(
                "This is an address of a private network or of this machine. RTMPWEB_WEBHOOK_PRIVATE=1 allows those."
            )
        return url


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

    class Meta:
        model = AlertRule
        fields = (
            *("name", "enabled", "kinds", "checks", "level", "applications", "streams", "days", "from_time"),
            *("until_time", "time_zone", "delay_s", "repeat_min", "emails", "webhooks"),
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
        if not any(values.get(field) for field in (*ADDRESSED.values(), "webhooks")):
            raise ValidationError("Add a recipient: an e-mail address or a webhook.")
        if bool(values.get("from_time")) != bool(values.get("until_time")):
            raise ValidationError("Hours need a beginning and an end.")
        return values


SUBJECTS: dict[type, str] = {AlertRule: "alert_rule", Webhook: "webhook"}
"""By what is made, changed and deleted: its name in the audit log."""


@transaction.atomic
def save(form: RuleForm | WebhookForm, actor: Actor) -> AlertRule | Webhook:
    verb = "change" if form.instance.pk else "create"
    if isinstance(form.instance, AlertRule):
        form.instance.unjudged_since = timezone.now()
    row = form.save()
    if isinstance(row, AlertRule) and not row.enabled:
        evaluation.rule_disabled(row, timezone.now())
    audit.record(actor, f"{SUBJECTS[type(row)]}.{verb}", row.name, changed=sorted(form.changed_data))
    return row


@transaction.atomic
def delete(row: AlertRule | Webhook, actor: Actor) -> None:
    """A rule with its alerts: what waits to be delivered of them is delivered all the same. A webhook with its
    deliveries, whether they arrived or not.
    """
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
def send_test(webhook: Webhook, actor: Actor) -> Delivery:
    message = messages.test_delivery(webhook)
    engine.enqueue([message])
    audit.record(actor, "webhook.test", webhook.name)
    deliver_soon(message.channel, message.webhook_id)
    return message


@transaction.atomic
def send_again(row: Delivery, actor: Actor) -> bool:
    """False: it is being sent just now."""
    if not engine.requeue(Delivery.objects.filter(pk=row.pk)):
        return False
    audit.record(actor, "delivery.send_again", str(row), delivery=str(row.pk))
    deliver_soon(row.channel, row.webhook_id)
    return True
