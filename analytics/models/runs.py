"""Runs of the Spark jobs with what each said, and the ledger: which hours and days of the lake are done, from what."""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone

from analytics.models.rollups import METRIC_VERSION, Grain


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


class Partition(models.Model):
    """An hour or a day of the lake: what its rollups were made from, and how far that is.

    It is done when its state says so and its fingerprint and metric version are those of what the lake holds now;
    another fingerprint means do it again. An hour's fingerprint is of its files' names, sizes and times, and of the
    tail of the hour before it, a day's of its hours' fingerprints. Who computes it holds `lock` until `locked_until`,
    and notes its result only while it still holds it.
    """

    class State(models.TextChoices):
        PENDING = "pending", "To do"
        RUNNING = "running", "Being computed"
        DONE = "done", "Done"
        FAILED = "failed", "Failed"

    grain = models.CharField(max_length=4, choices=Grain)
    start = models.DateTimeField()
    state = models.CharField(max_length=8, choices=State, default=State.PENDING, db_default=State.DONE)
    fingerprint = models.CharField(max_length=64, blank=True, help_text="Of what its rollups were made from.")
    metric_version = models.PositiveIntegerField(default=0)
    tail = models.CharField(
        max_length=64,
        blank=True,
        db_default="",
        help_text="Digest of what goes on past its end: the next hour begins with it.",
    )
    files = models.PositiveIntegerField(default=0)
    rows_read = models.BigIntegerField(default=0)
    rows_written = models.BigIntegerField(default=0)
    lake_only = models.CharField(
        max_length=60,
        blank=True,
        default="",
        db_default="",
        help_text="Dimensions whose rows are in the lake alone, not in the database.",
    )
    damaged_files = models.PositiveIntegerField(
        default=0, db_default=0, help_text="Files that could not be read and were set aside: it lacks what they held."
    )
    strays = models.BigIntegerField(
        default=0, db_default=0, help_text="Records of another hour in its files, which count for none."
    )
    late_rows = models.BigIntegerField(
        default=0, db_default=0, help_text="Records that came after it was sealed, and count for nothing."
    )
    attempts = models.PositiveIntegerField(
        default=0, db_default=0, help_text="Times that it was begun since it was last done."
    )
    retry_at = models.DateTimeField(
        null=True, blank=True, help_text="Not before this time: it failed, or is a day that goes on."
    )
    error = models.TextField(blank=True, db_default="")
    lock = models.CharField(max_length=36, blank=True, db_default="", help_text="Who computes it now.")
    locked_until = models.DateTimeField(null=True, blank=True)
    run = models.ForeignKey(AnalyticsRun, on_delete=models.SET_NULL, null=True, related_name="partitions")
    processed_at = models.DateTimeField(null=True, blank=True, help_text="When it was last done.")
    sealed_at = models.DateTimeField(
        null=True, blank=True, help_text="When what it was made from was removed, as old: it is never computed again."
    )
    compacted_at = models.DateTimeField(null=True, blank=True, help_text="When its sample files were last made one.")

    class Meta:
        ordering = ["-start", "grain"]
        constraints = [models.UniqueConstraint(fields=["grain", "start"], name="analytics_partition_unique")]

    def __str__(self) -> str:
        return f"{self.grain} {self.start:%Y-%m-%d %H:%M}"
