"""What people do with rules, webhooks and deliveries: each act with its entry of the audit log, in one transaction."""

from django.db import transaction
from django.utils import timezone

from dashboard.alerting import alarms, delivering, sending
from dashboard.alerting.forms import RuleForm, WebhookForm
from dashboard.alerting.models import AlertRule, Delivery, Webhook, new_salt
from ingest.services import audit
from ingest.services.audit import Actor


@transaction.atomic
def save_rule(form: RuleForm, actor: Actor) -> AlertRule:
    verb = "change" if form.instance.pk else "create"
    rule = form.save()
    if not rule.enabled:
        alarms.switched_off(rule, timezone.now())
    audit.record(actor, f"alert_rule.{verb}", rule.name, changed=sorted(form.changed_data))
    return rule


@transaction.atomic
def delete_rule(rule: AlertRule, actor: Actor) -> None:
    """With its alerts. What waits to be delivered of them is delivered all the same."""
    audit.record(actor, "alert_rule.delete", rule.name)
    rule.delete()


@transaction.atomic
def save_webhook(form: WebhookForm, actor: Actor) -> Webhook:
    verb = "change" if form.instance.pk else "create"
    webhook = form.save()
    audit.record(actor, f"webhook.{verb}", webhook.name, changed=sorted(form.changed_data))
    return webhook


@transaction.atomic
def rotate(webhook: Webhook, actor: Actor) -> Webhook:
    """Gives it a new secret, by which all is signed from now on."""
    webhook.salt = new_salt()
    webhook.save(update_fields=["salt"])
    audit.record(actor, "webhook.rotate", webhook.name)
    return webhook


@transaction.atomic
def delete_webhook(webhook: Webhook, actor: Actor) -> None:
    """With its deliveries, whether they arrived or not."""
    audit.record(actor, "webhook.delete", webhook.name)
    webhook.delete()


@transaction.atomic
def send_test(webhook: Webhook, actor: Actor) -> Delivery:
    message = sending.put_test(webhook)
    audit.record(actor, "webhook.test", webhook.name)
    _kick(message)
    return message


@transaction.atomic
def send_again(row: Delivery, actor: Actor) -> bool:
    """False: it is being sent just now."""
    if not delivering.again(row):
        return False
    audit.record(actor, "delivery.send_again", str(row), delivery=str(row.pk))
    _kick(row)
    return True


def _kick(row: Delivery) -> None:
    """Now rather than with the next run. Without a broker that run does it."""
    from dashboard.tasks import deliver_mail, deliver_webhook  # They import what is here.

    webhook = row.webhook_id
    transaction.on_commit(
        lambda: deliver_webhook.delay(webhook) if webhook is not None else deliver_mail.delay(), robust=True
    )
