"""Figures by hour and by day, as docs/analytics.md defines them: what pages, reports and the API read."""

from datetime import datetime

from django.db import models

from analytics.metrics import METRICS

METRIC_VERSION = 4
"""Grows when a metric's meaning changes: every hour and day that the lake still holds is then computed anew."""


class Grain(models.TextChoices):
    HOUR = "hour"
    DAY = "day"


class Dimension(models.TextChoices):
    """What a rollup's figures are of."""

    STREAM = "stream"
    KEY = "key"
    APP = "app", "Application"
    ENCODER = "encoder"
    NODE = "node"
    BROADCAST = "broadcast"  # Sessions of one stream, joined over gaps of at most 300 s.


def within(since: datetime | None, until: datetime | None) -> models.Q:
    """Rows of since <= start < until; None: without an end there."""
    bounds = {"start__gte": since, "start__lt": until}
    return models.Q(**{lookup: bound for lookup, bound in bounds.items() if bound})


class Rollup(models.Model):
    """The figures of one hour or day (UTC) of one stream, key, application, encoder, node or broadcast.

    `app` and `name` are the stream's; of an application `name` is empty; of an encoder and a node both are. `value` is
    what tells it apart within its dimension, and what pages show: "app/name" of a stream, the name of an application,
    an encoder or a node, the id of a key ("" for publishing without one), the begin of a broadcast (ISO 8601).

    Bitrates are kbit/s over the samples (one a second) of all its publishing sessions; `_ms` are milliseconds.
    """

    grain = models.CharField(max_length=4, choices=Grain)
    start = models.DateTimeField()
    dimension = models.CharField(max_length=9, choices=Dimension, default=Dimension.STREAM, db_default=Dimension.STREAM)
    app = models.CharField(max_length=128, blank=True)
    name = models.CharField(max_length=255, blank=True)
    value = models.CharField(max_length=400, blank=True, db_default="")
    stream = models.ForeignKey(
        "ingest.Stream",
        # A stream that is deleted may have ten thousands of them, and SQLite has one writer, whom encoders wait for. So
        # they stay as they are, with its number, which no other stream gets. Nothing asks for them by it.
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        null=True,
        related_name="rollups",
    )
    sessions = models.PositiveIntegerField()
    samples = models.BigIntegerField()
    elapsed_ms = models.BigIntegerField()
    live_ms = models.BigIntegerField()
    good_ms = models.BigIntegerField()
    warning_ms = models.BigIntegerField()
    bad_ms = models.BigIntegerField()
    starved_ms = models.BigIntegerField(db_default=0)
    targeted_ms = models.BigIntegerField(db_default=0)
    below_ms = models.BigIntegerField(db_default=0)
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
    media_faults = models.BigIntegerField(db_default=0)
    dropped_frames = models.BigIntegerField()
    player_ms = models.BigIntegerField()
    viewer_ms = models.BigIntegerField(db_default=0)
    kbps_sum = models.BigIntegerField(db_default=0)
    kbps_squares = models.BigIntegerField(db_default=0)
    gop_1 = models.BigIntegerField(db_default=0)
    gop_2 = models.BigIntegerField(db_default=0)
    gop_2_5 = models.BigIntegerField(db_default=0)
    gop_4 = models.BigIntegerField(db_default=0)
    gop_6 = models.BigIntegerField(db_default=0)
    gop_10 = models.BigIntegerField(db_default=0)
    gop_longer = models.BigIntegerField(db_default=0)
    starts = models.BigIntegerField(db_default=0)
    broadcasts = models.BigIntegerField(db_default=0)
    reconnects = models.BigIntegerField(db_default=0)
    recovery_ms = models.BigIntegerField(db_default=0)
    ends = models.BigIntegerField(db_default=0)
    unplanned_ends = models.BigIntegerField(db_default=0)
    accepted = models.BigIntegerField(db_default=0)
    refused = models.BigIntegerField(db_default=0)
    plays = models.BigIntegerField(db_default=0)
    viewer_reports = models.BigIntegerField(db_default=0)
    viewer_joins = models.BigIntegerField(db_default=0)
    viewer_join_ms = models.BigIntegerField(db_default=0)
    viewer_stalled_ms = models.BigIntegerField(db_default=0)
    viewer_watched_ms = models.BigIntegerField(db_default=0)
    unique_players = models.PositiveIntegerField(null=True)
    refusals = models.JSONField(
        default=dict,
        db_default=models.Value({}, models.JSONField()),
    )
    end_reasons = models.JSONField(default=dict, db_default=models.Value({}, models.JSONField()))
    peak_players = models.PositiveIntegerField()
    peak_at = models.DateTimeField(null=True)
    peak_viewers = models.PositiveIntegerField(db_default=0)
    peak_streams = models.PositiveIntegerField(db_default=0)
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
    video_histogram = models.BinaryField(
        db_default=b"", help_text="Of the samples' video bitrates: see analytics.histograms."
    )
    players_sketch = models.BinaryField(
        db_default=b"", help_text="Of the players' addresses, by HyperLogLog: see docs/analytics.md."
    )
    metric_version = models.PositiveIntegerField()

    class Meta:
        ordering = ["-start", "dimension", "app", "name", "value"]
        constraints = [
            models.UniqueConstraint(
                fields=["grain", "start", "dimension", "app", "name", "value"], name="analytics_rollup_once"
            )
        ]
        indexes = [
            models.Index(fields=["dimension", "grain", "app", "name", "-start"], name="analytics_rollup_of"),
            models.Index(fields=["dimension", "grain", "value", "-start"], name="analytics_rollup_value"),
        ]

    def __str__(self) -> str:
        return f"{self.dimension} {self.value} {self.grain} {self.start:%Y-%m-%d %H:%M}"


IDENTITY = ["grain", "start", "dimension", "app", "name", "value"]
"""What makes a rollup this one."""

PACKED = ["video_histogram", "players_sketch"]
"""What the figures of several rows are merged from."""

WORDS = {metric.name: metric.words for metric in METRICS}
for each in Rollup._meta.concrete_fields:
    each.help_text = WORDS.get(each.name, each.help_text)

FIGURES = [
    field.name
    for field in Rollup._meta.concrete_fields
    if not field.primary_key and field.name not in {*IDENTITY, *PACKED, "stream", "metric_version"}
]
"""What it tells, in the model's order; the jobs' columns have the same names."""
