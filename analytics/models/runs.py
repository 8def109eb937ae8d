"""Runs of the Spark jobs, and what each said while it worked."""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone

from analytics.models.rollups import METRIC_VERSION


class AnalyticsRun(models.Model):
    """One run of the Spark jobs, from the request to its end. At most one is running."""

    class Kind(models.TextChoices):
        HOURLY = "hourly", "Hours"
        DAILY = "daily", "Days"
        ALL = "all", "Hours and days"

    class State(models.TextChoices):
        QUEUED = "queued", "Waiting"
        RUNNING = "running", "Running"
        DONE = "done", "Done"
        FAILED = "failed", "Failed"

    class Trigger(models.TextChoices):
        SCHEDULE = "schedule", "Schedule"
        PAGE = "page", "Page"
        COMMAND = "command", "Command"

    class ErrorCode(models.TextChoices):
        JAVA_MISSING = "java_missing", "Java is missing"
        QUEUE = "queue", "The task queue can't be reached"
        LOST = "lost", "The process was lost"
        TIME_LIMIT = "time_limit", "The time limit passed"
        FAILED = "failed", "The job failed"

    kind = models.CharField(max_length=8, choices=Kind, default=Kind.ALL)
    state = models.CharField(max_length=8, choices=State, default=State.QUEUED)
    trigger = models.CharField(max_length=8, choices=Trigger)
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    since = models.DateTimeField(null=True, blank=True, help_text="Only hours from this time on.")
    until = models.DateTimeField(null=True, blank=True, help_text="Only hours before this time.")
    requested_at = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True, blank=True)
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    stage = models.CharField(max_length=64, blank=True, help_text="What it is doing, in words.")
    expected = models.PositiveIntegerField(default=0, help_text="Hours and days to compute.")
    done = models.PositiveIntegerField(default=0, help_text="Hours and days computed.")
    rows_read = models.BigIntegerField(default=0, help_text="Samples and hour rollups read from the lake.")
    rows_written = models.BigIntegerField(default=0, help_text="Rollups written.")
    error_code = models.CharField(max_length=16, choices=ErrorCode, blank=True)
    error = models.TextField(blank=True)
    metric_version = models.PositiveIntegerField(default=METRIC_VERSION)

    class Meta:
        ordering = ["-requested_at", "-pk"]
        constraints = [
            models.UniqueConstraint(fields=["state"], condition=Q(state="running"), name="analytics_one_run_at_a_time")
        ]
        indexes = [models.Index(fields=["-requested_at"], name="analytics_run_requested")]

    def __str__(self) -> str:
        return f"{self.kind} {self.requested_at:%Y-%m-%d %H:%M:%S} {self.state}"

    @property
    def active(self) -> bool:
        return self.state in {self.State.QUEUED, self.State.RUNNING}

    @property
    def duration_s(self) -> float | None:
        """Seconds of work, until now while it runs; None before it starts."""
        if self.started_at is None:
            return None
        return ((self.ended_at or timezone.now()) - self.started_at).total_seconds()


class RunLine(models.Model):
    """A line of a run's log: what it did, and what went wrong, in words for the operator."""

    class Level(models.TextChoices):
        INFO = "info"
        WARNING = "warning"
        ERROR = "error"

    run = models.ForeignKey(AnalyticsRun, on_delete=models.CASCADE, related_name="lines")
    at = models.DateTimeField(default=timezone.now)
    level = models.CharField(max_length=8, choices=Level, default=Level.INFO)
    text = models.CharField(max_length=1000)

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return f"{self.at:%H:%M:%S} {self.text}"
