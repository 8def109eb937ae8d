"""Reports: who wants which and when (plans), those that were made (the archive), and to whom they went."""

from datetime import date, datetime
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import models
from django.db.models import Count, OuterRef, Subquery, Value
from django.db.models.functions import Cast, Coalesce, Concat
from django.utils import timezone
from django.utils.functional import cached_property

from analytics.models.rollups import METRIC_VERSION
from ingest.models import Delivery


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

    @property
    def deliveries(self) -> "models.QuerySet[ReportDelivery]":
        return ReportDelivery.objects.filter(about=about(self.pk))


REPORT = "report"
"""The kind of a message that is a report."""


def about(report: object) -> str:
    """What names it to the engine of deliveries."""
    return f"{REPORT}:{report}"


def report_of(row: Delivery) -> int:
    """The id of the report that it is."""
    return int(row.about.partition(":")[2])


class ReportDeliveries(models.Manager["ReportDelivery"]):
    def get_queryset(self) -> "models.QuerySet[ReportDelivery]":
        return super().get_queryset().filter(kind=REPORT)


class ReportDelivery(Delivery):
    """A report's way to one recipient: sent once."""

    class Progress(models.TextChoices):
        WAITING = "waiting", "Waiting"
        SENDING = "sending", "Being sent"
        SENT = "sent", "Sent"
        FAILED = "failed", "Failed"

    objects: ClassVar[ReportDeliveries] = ReportDeliveries()

    class Meta:
        proxy = True
        verbose_name_plural = "report deliveries"
        ordering = ["address"]

    def __str__(self) -> str:
        return f"{self.report} to {self.address}: {self.progress}"

    @classmethod
    def to(cls, report: Report, address: str, **fields: Any) -> "ReportDelivery":
        """Not saved."""
        once = f"{about(report.pk)}:{address}"[:255]
        common: dict[str, Any] = {"channel": "email", "kind": REPORT, "about": about(report.pk), "series": once}
        return cls(once=once, address=address, **common | fields)

    @classmethod
    def of(cls, reports: "models.QuerySet[Report]") -> "models.QuerySet[ReportDelivery]":
        return cls.objects.filter(about__in=reports.values(named=_about("pk")))

    @classmethod
    def counted(cls, *states: str) -> Coalesce:
        """Of each of some reports, how many stand so. By a query of its own: grouping would read every report's whole
        document.
        """
        found = cls.objects.filter(about=_about(OuterRef("pk")), state__in=states).order_by().values("about")
        return Coalesce(Subquery(found.annotate(count=Count("pk")).values("count")), 0)

    @cached_property
    def report(self) -> Report:
        return Report.objects.defer("document").get(pk=report_of(self))

    @property
    def recipient(self) -> str:
        return self.address

    @property
    def progress(self) -> Progress:
        if self.state == self.State.WAITING and self.is_claimed:
            return self.Progress.SENDING
        return PROGRESS[self.State(self.state)]

    @property
    def sent_at(self) -> datetime | None:
        return self.ended_at if self.state == self.State.DONE else None


PROGRESS = {
    Delivery.State.WAITING: ReportDelivery.Progress.WAITING,
    Delivery.State.DONE: ReportDelivery.Progress.SENT,
    Delivery.State.DEAD: ReportDelivery.Progress.FAILED,
    Delivery.State.DROPPED: ReportDelivery.Progress.FAILED,
}


def _about(pk: Any) -> Concat:
    return Concat(Value(about("")), Cast(pk, models.CharField()))
