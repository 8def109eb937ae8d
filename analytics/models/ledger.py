"""Which hours and days of the lake are done, from what, and who is computing which of them now."""

from django.db import models

from analytics.models.rollups import Grain
from analytics.models.runs import AnalyticsRun


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
