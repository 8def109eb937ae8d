"""Webhooks and services, messages on their way by each channel (deliveries), and how tries to deliver them came out."""

import secrets
import uuid
from collections import Counter
from typing import Any
from urllib.parse import urlsplit

from django.core.validators import URLValidator
from django.db import models
from django.db.models import F, Q
from django.db.models.signals import m2m_changed
from django.utils import timezone

from ingest.models.access import Application, Stream
from ingest.models.activity import OutboxEvent

MAX_ADDRESS = 254
"""Characters of an e-mail address (RFC 5321)."""


def new_salt() -> str:
    return secrets.token_hex(16)


class Scope(models.Model):
    """Which streams it is about: those of the applications, and those named. If nobody chose any: all.

    `is_scoped` (somebody chose) is kept by `keep_scoped`: when all that was chosen is deleted, it is about none.
    """

    applications = models.ManyToManyField(Application, blank=True, related_name="+")
    streams = models.ManyToManyField(Stream, blank=True, related_name="+")
    is_scoped = models.BooleanField(default=False, db_default=False, editable=False)

    class Meta:
        abstract = True

    def covers(self, app: str, stream: int | None) -> bool:
        """By an application's name and a stream's row id. Ask it of rows that have both prefetched."""
        apps = {application.name for application in self.applications.all()}
        streams = {row.pk for row in self.streams.all()}
        return app in apps or stream in streams or not self.is_scoped


def scoped(rows: "models.QuerySet[Any]") -> "models.QuerySet[Any]":
    """Rows of a Scope whose `covers` asks no more queries."""
    return rows.prefetch_related("applications", "streams")


def keep_scoped(model: type[Scope]) -> None:
    """Has `is_scoped` follow what somebody chooses. What a deleted stream takes with it changes nothing here."""

    def changed(instance: Scope, action: str, reverse: bool, **_: object) -> None:
        if action.startswith("post_") and not reverse:
            instance.is_scoped = instance.applications.exists() or instance.streams.exists()
            instance.save(update_fields=["is_scoped"])

    for chosen in (model.applications, model.streams):
        m2m_changed.connect(changed, sender=chosen.through, weak=False)


class Webhook(Scope):
    """An address that is told of events. Its secret is made of `salt` and the installation's pepper: none is kept."""

    name = models.CharField(max_length=100, unique=True)
    url = models.CharField("URL", max_length=500, validators=[URLValidator(schemes=["http", "https"])])
    salt = models.CharField(max_length=64, default=new_salt, editable=False)
    kinds = models.JSONField(default=list, blank=True, help_text="Empty: all.")
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def host(self) -> str:
        """Where it goes, for all to see: the rest of a URL may be a secret."""
        return urlsplit(self.url).hostname or ""

    def wants(self, event: OutboxEvent) -> bool:
        chosen = not self.kinds or event.kind in self.kinds
        return chosen and self.covers(event.payload.get("app", ""), event.stream_id)


keep_scoped(Webhook)


class Service(models.Model):
    """A chat or pager that alerts are sent to, such as Slack's channel #ops.

    `options` are what anybody may know; its secrets are in `sealed`, encrypted under the installation's pepper
    (`ingest.delivery.services`); `shown` is what pages show of both.
    """

    class Kind(models.TextChoices):
        SLACK = "slack", "Slack"
        DISCORD = "discord", "Discord"
        TEAMS = "teams", "Microsoft Teams"
        TELEGRAM = "telegram", "Telegram"
        PAGERDUTY = "pagerduty", "PagerDuty"
        NTFY = "ntfy", "ntfy"

    name = models.CharField(max_length=100, unique=True)
    kind = models.CharField(max_length=16, choices=Kind)
    options = models.JSONField(default=dict, blank=True)
    sealed = models.TextField(editable=False)
    shown = models.CharField(max_length=200, editable=False)
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Delivery(models.Model):
    """One message to one receiver by a channel: a webhook, a service, or an address. `body` is what it is told, if not
    all of it follows from what it is about.
    """

    class State(models.TextChoices):
        WAITING = "waiting", "Queued"
        DONE = "done", "Delivered"
        DEAD = "dead", "Given up"
        DROPPED = "dropped", "Not sent"  # What it was to tell was over, and nobody would be helped by it.

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    once = models.CharField(max_length=255, unique=True)
    number = models.BigIntegerField(help_text="Orders them: microseconds since the epoch, as they were made.")
    channel = models.CharField(max_length=16, default="webhook")
    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, null=True, blank=True, related_name="deliveries")
    service = models.ForeignKey(Service, on_delete=models.CASCADE, null=True, blank=True, related_name="deliveries")
    address = models.CharField(max_length=MAX_ADDRESS, blank=True, help_text="Of a channel without rows of its own.")
    event = models.ForeignKey(OutboxEvent, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    about = models.CharField(max_length=32, blank=True, help_text="What else it tells of, by its id: report:5.")
    kind = models.CharField(max_length=32)
    series = models.CharField(
        max_length=300, help_text="Of which one goes after the other: a receiver's of one stream or alert."
    )
    body = models.JSONField(default=dict)
    state = models.CharField(max_length=8, choices=State, default=State.WAITING)
    attempts = models.PositiveIntegerField(default=0)
    next_at = models.DateTimeField(default=timezone.now)
    claim = models.UUIDField(null=True, blank=True, help_text="Of the worker that delivers it now.")
    claimed_until = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    ended_at = models.DateTimeField(null=True, blank=True)
    asked_at = models.DateTimeField(
        null=True, blank=True, help_text="When somebody had it sent again: then it is sent whatever has become of it."
    )
    status_code = models.PositiveIntegerField(null=True, blank=True)
    error = models.CharField(max_length=500, blank=True)
    duration_ms = models.PositiveIntegerField(null=True, blank=True)
    response = models.CharField(max_length=512, blank=True, help_text="How the answer began.")

    class Meta:
        ordering = ["-number"]
        verbose_name_plural = "deliveries"
        indexes = [
            models.Index(fields=["-number"], name="delivery_number"),
            models.Index(fields=["kind", "-number"], name="delivery_of_kind"),
            models.Index(fields=["series", "number"], name="delivery_waiting", condition=Q(state="waiting")),
            models.Index(fields=["next_at"], name="delivery_next", condition=Q(state="waiting")),
            models.Index(fields=["webhook", "-number"], name="delivery_of_webhook"),
            models.Index(fields=["service", "-number"], name="delivery_of_service"),
            models.Index(fields=["webhook"], name="delivery_left", condition=Q(state="waiting")),
            models.Index(fields=["webhook"], name="delivery_dead", condition=Q(state="dead")),
            models.Index(fields=["service"], name="delivery_left_to", condition=Q(state="waiting")),
            models.Index(fields=["service"], name="delivery_dead_to", condition=Q(state="dead")),
            models.Index(fields=["about", "state"], name="delivery_about"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} to {self.receiver}"

    @property
    def receiver(self) -> str:
        """Its name, or address."""
        row = self.webhook or self.service
        return row.name if row is not None else self.address

    @property
    def receiver_id(self) -> int | None:
        """Of its row, where the channel's receivers have one."""
        return self.webhook_id or self.service_id

    @property
    def subject(self) -> str:
        """What it tells of, for logs: Report 5."""
        return self.about.replace(":", " ").capitalize() or self.kind

    @property
    def is_claimed(self) -> bool:
        return self.claimed_until is not None and self.claimed_until > timezone.now()


class DeliveryCount(models.Model):
    """How many tries to deliver a message came out so. It only grows, whatever becomes of the messages' rows."""

    class Outcome(models.TextChoices):
        DONE = "done", "Delivered"
        FAILED = "failed", "To be tried again"
        DEAD = "dead", "Given up"

    to = models.CharField(max_length=16, help_text="The channel: webhook, service or email.")
    outcome = models.CharField(max_length=8, choices=Outcome)
    count = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["to", "outcome"], name="delivery_count_once")]

    def __str__(self) -> str:
        return f"{self.to} {self.outcome}: {self.count}"

    @classmethod
    def add(cls, to: str, outcomes: "Counter[Outcome]") -> None:
        """Within the transaction of what is counted."""
        for outcome in sorted(outcomes):  # In one order, so that no two wait for each other.
            row, _ = cls.objects.get_or_create(to=to, outcome=outcome)
            cls.objects.filter(pk=row.pk).update(count=F("count") + outcomes[outcome])
