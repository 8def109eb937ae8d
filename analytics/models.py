"""What analytics keeps in the database: its runs, which part of the lake is done, and the rollups that pages read."""

from datetime import timedelta

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone

METRIC_VERSION = 1
"""Grows when a metric's meaning changes: every hour and day is then computed anew."""

HEARTBEAT_LOST = timedelta(seconds=30)
"""A running run whose heartbeat is older has lost its process."""


class Grain(models.TextChoices):
    HOUR = "hour"
    DAY = "day"


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


class Partition(models.Model):
    """An hour or a day of the lake whose rollups are done, and from what: another fingerprint means do it again.

    An hour's fingerprint is of its files' names and sizes, a day's of its hours' fingerprints.
    """

    grain = models.CharField(max_length=4, choices=Grain)
    start = models.DateTimeField()
    fingerprint = models.CharField(max_length=64)
    metric_version = models.PositiveIntegerField()
    files = models.PositiveIntegerField()
    rows_read = models.BigIntegerField()
    rows_written = models.BigIntegerField()
    run = models.ForeignKey(AnalyticsRun, on_delete=models.SET_NULL, null=True, related_name="partitions")
    processed_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["-start", "grain"]
        constraints = [models.UniqueConstraint(fields=["grain", "start"], name="analytics_partition_unique")]

    def __str__(self) -> str:
        return f"{self.grain} {self.start:%Y-%m-%d %H:%M}"


class Rollup(models.Model):
    """One stream's figures of one hour or day (UTC), as docs/analytics.md defines them.

    Bitrates are kbit/s over the samples (one a second) of all its publishing sessions; `_ms` are milliseconds.
    """

    grain = models.CharField(max_length=4, choices=Grain)
    start = models.DateTimeField()
    app = models.CharField(max_length=128)
    name = models.CharField(max_length=255)
    stream = models.ForeignKey("ingest.Stream", on_delete=models.SET_NULL, null=True, related_name="rollups")
    samples = models.BigIntegerField()
    sessions = models.PositiveIntegerField()
    elapsed_ms = models.BigIntegerField()
    live_ms = models.BigIntegerField()
    good_ms = models.BigIntegerField()
    warning_ms = models.BigIntegerField()
    bad_ms = models.BigIntegerField()
    video_bytes = models.BigIntegerField()
    audio_bytes = models.BigIntegerField()
    data_bytes = models.BigIntegerField()
    wire_bytes = models.BigIntegerField()
    out_bytes = models.BigIntegerField()
    video_frames = models.BigIntegerField()
    audio_frames = models.BigIntegerField()
    keyframes = models.BigIntegerField()
    ts_gaps = models.BigIntegerField()
    ts_regressions = models.BigIntegerField()
    missing_frames_est = models.BigIntegerField()
    dropped_frames = models.BigIntegerField()
    player_ms = models.BigIntegerField()
    peak_players = models.PositiveIntegerField()
    keyframe_interval_max = models.FloatField(null=True)
    video_kbps_mean = models.FloatField(null=True)
    video_kbps_min = models.FloatField(null=True)
    video_kbps_p5 = models.FloatField(null=True)
    video_kbps_p50 = models.FloatField(null=True)
    video_kbps_p95 = models.FloatField(null=True)
    video_kbps_max = models.FloatField(null=True)
    audio_kbps_mean = models.FloatField(null=True)
    audio_kbps_min = models.FloatField(null=True)
    audio_kbps_p5 = models.FloatField(null=True)
    audio_kbps_p50 = models.FloatField(null=True)
    audio_kbps_p95 = models.FloatField(null=True)
    audio_kbps_max = models.FloatField(null=True)
    wire_kbps_mean = models.FloatField(null=True)
    wire_kbps_min = models.FloatField(null=True)
    wire_kbps_p5 = models.FloatField(null=True)
    wire_kbps_p50 = models.FloatField(null=True)
    wire_kbps_p95 = models.FloatField(null=True)
    wire_kbps_max = models.FloatField(null=True)
    metric_version = models.PositiveIntegerField()

    class Meta:
        ordering = ["-start", "app", "name"]
        constraints = [
            models.UniqueConstraint(fields=["grain", "start", "app", "name"], name="analytics_rollup_unique")
        ]
        indexes = [models.Index(fields=["grain", "app", "name", "-start"], name="analytics_rollup_path")]

    def __str__(self) -> str:
        return f"{self.app}/{self.name} {self.grain} {self.start:%Y-%m-%d %H:%M}"

    @property
    def player_minutes(self) -> float:
        return self.player_ms / 60_000

    @property
    def delivered_gb(self) -> float:
        return self.out_bytes / 1e9

    @property
    def health(self) -> str:
        """The worst health that held for at least a minute in all, or for half of the measured time."""
        least = min(60_000, (self.good_ms + self.warning_ms + self.bad_ms) / 2)
        for word, held in (("bad", self.bad_ms), ("warning", self.warning_ms), ("good", self.good_ms)):
            if held and held >= least:
                return word
        return "none"


IDENTITY = ["grain", "start", "app", "name"]
"""What makes a rollup this one."""

FIGURES = [
    field.name
    for field in Rollup._meta.concrete_fields
    if not field.primary_key and field.name not in {*IDENTITY, "stream", "metric_version"}
]
"""What it tells, in the model's order; the jobs' columns have the same names."""
