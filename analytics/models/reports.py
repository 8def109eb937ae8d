"""Reports: who wants which and when (plans), those that were made (the archive), and to whom they went."""

from datetime import date
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.core.validators import validate_email
from django.db import models
from django.utils import timezone

from analytics.models.rollups import METRIC_VERSION


class ReportPlan(models.Model):
    """A report that is made again and again. The broadcasts' is made after each broadcast of its streams."""

    class Kind(models.TextChoices):
        DAILY = "daily", "Daily"
        WEEKLY = "weekly", "Weekly, Monday to Sunday"
        MONTHLY = "monthly", "Monthly"
        BROADCAST = "broadcast", "After each broadcast"

    name = models.CharField(max_length=100, unique=True)
    kind = models.CharField(max_length=9, choices=Kind)
    time_zone = models.CharField(
        max_length=64, default="UTC", help_text="Whose days it speaks of, and whose clock it is sent by: Europe/Berlin."
    )
    send_at = models.TimeField(help_text="When it is made and sent, on the day after its period.", default="06:00")
    app = models.CharField("application", max_length=128, blank=True, help_text="Only its streams; empty: of all.")
    stream = models.ForeignKey(
        "ingest.Stream",
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="report_plans",
        help_text="Only this stream.",
    )
    recipients = models.TextField(blank=True, help_text="E-mail addresses, one a line.")
    is_enabled = models.BooleanField("enabled", default=True)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    counts_from = models.DateTimeField(
        default=timezone.now,
        editable=False,
        help_text="What was due before this is not made: since then it is as it is.",
    )

    ABOUT = ("kind", "time_zone", "app", "stream_id", "is_enabled")
    """Where one of these is changed, the plan counts from now."""

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def save(self, *args: Any, **kwargs: Any) -> None:
        before = ReportPlan.objects.filter(pk=self.pk).values(*self.ABOUT).first() if self.pk else None
        if before and any(was != getattr(self, name) for name, was in before.items()):
            self.counts_from = timezone.now()
        super().save(*args, **kwargs)

    def clean(self) -> None:
        for address in self.addresses:
            validate_email(address)

    @property
    def addresses(self) -> list[str]:
        """Each recipient once, in order."""
        return list(dict.fromkeys(filter(None, map(str.strip, self.recipients.splitlines()))))


class Report(models.Model):
    """A report as it was made: it stays as it was, whatever is computed anew later."""

    plan = models.ForeignKey(ReportPlan, on_delete=models.SET_NULL, null=True, blank=True, related_name="reports")
    kind = models.CharField(max_length=9, choices=ReportPlan.Kind)
    scope = models.CharField(
        max_length=400, blank=True, help_text='Whose streams: "" all, an application\'s name, or app/name.'
    )
    since = models.DateTimeField(help_text="Where its period begins,")
    until = models.DateTimeField(help_text="and ends: the first moment after it.")
    time_zone = models.CharField(max_length=64)
    hours_expected = models.PositiveIntegerField(help_text="Hours of its period in which something was recorded,")
    hours_done = models.PositiveIntegerField(help_text="and how many of them had been computed.")
    metric_version = models.PositiveIntegerField(default=METRIC_VERSION)
    document = models.JSONField(help_text="All that it says: see analytics.reports.document.")
    made_at = models.DateTimeField(default=timezone.now)
    made_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )

    class Meta:
        ordering = ["-made_at", "-pk"]
        constraints = [
            models.UniqueConstraint(fields=["plan", "since", "until", "scope"], name="analytics_report_once_a_period")
        ]
        indexes = [models.Index(fields=["-made_at"], name="analytics_report_made")]

    def __str__(self) -> str:
        return f"{self.kind} {self.first_day:%Y-%m-%d} {self.scope}".rstrip()

    @property
    def first_day(self) -> date:
        """Of its period, by the clock of its time zone."""
        return self.since.astimezone(ZoneInfo(self.time_zone)).date()

    @property
    def is_complete(self) -> bool:
        return self.hours_done >= self.hours_expected


class ReportDelivery(models.Model):
    """A report's way to one recipient: sent once."""

    class State(models.TextChoices):
        WAITING = "waiting", "Waiting"
        SENDING = "sending", "Being sent"
        SENT = "sent", "Sent"
        FAILED = "failed", "Failed"

    report = models.ForeignKey(Report, on_delete=models.CASCADE, related_name="deliveries")
    recipient = models.EmailField()
    state = models.CharField(max_length=8, choices=State, default=State.WAITING)
    attempts = models.PositiveIntegerField(default=0)
    next_at = models.DateTimeField(default=timezone.now, help_text="Not before this time.")
    sent_at = models.DateTimeField(null=True, blank=True)
    error = models.CharField(max_length=500, blank=True)

    class Meta:
        verbose_name_plural = "report deliveries"
        ordering = ["recipient"]
        constraints = [models.UniqueConstraint(fields=["report", "recipient"], name="analytics_report_once_to_each")]

    def __str__(self) -> str:
        return f"{self.report} to {self.recipient}: {self.state}"
