"""The schemas that the jobs read and write. SAMPLES and EVENTS are the lake's, as `ingest.contracts` declares them.

`_us`: microseconds since the Unix epoch (UTC).
"""

from collections.abc import Iterable

from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    FloatType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

TEXT, WHOLE, REAL = StringType(), LongType(), DoubleType()


def _required(*columns: tuple[str, DataType]) -> list[StructField]:
    return [StructField(name, kind, nullable=False) for name, kind in columns]


def names(fields: Iterable[StructField]) -> list[str]:
    return [field.name for field in fields]


def _optional(*columns: tuple[str, DataType]) -> list[StructField]:
    return [StructField(name, kind, nullable=True) for name, kind in columns]


SAMPLES = StructType(
    [
        *_required(
            ("session", TEXT),
            ("sequence", WHOLE),
            ("at_us", WHOLE),
            ("elapsed_ms", WHOLE),
            ("node", TEXT),
            ("app", TEXT),
            ("name", TEXT),
            ("stream", WHOLE),
        ),
        *_optional(("key", WHOLE)),
        *_required(
            ("video_bytes", WHOLE),
            ("audio_bytes", WHOLE),
            ("data_bytes", WHOLE),
            ("wire_bytes", WHOLE),
            ("video_kbps", REAL),
            ("audio_kbps", REAL),
            ("wire_kbps", REAL),
            ("video_frames", WHOLE),
            ("audio_frames", WHOLE),
            ("keyframes", WHOLE),
        ),
        *_optional(
            ("fps", REAL),
            ("fps_media", REAL),
            ("keyframe_interval", REAL),
            ("keyframe_interval_max", REAL),
            ("open_gop_age", REAL),
            ("drift", REAL),
            ("drift_dev", REAL),
            ("av_skew", REAL),
        ),
        *_required(("ts_gap", WHOLE), ("ts_regress", WHOLE), ("missing_frames_est", WHOLE)),
        *_required(("media_faults", WHOLE), ("idle_ms", WHOLE)),
        *_optional(("rtt_ms", REAL), ("retrans", WHOLE)),
        *_required(
            ("players", WHOLE),
            ("out_bytes", WHOLE),
            ("out_kbps", REAL),
            ("slow_players", WHOLE),
            ("dropped_frames", WHOLE),
            ("health", TEXT),
        ),
        *_optional(("encoder", TEXT), ("target_kbps", WHOLE)),
    ]
)

EVENTS = StructType(
    [
        *_required(("session", TEXT), ("sequence", WHOLE), ("at_us", WHOLE)),
        *_required(*((name, TEXT) for name in ("node", "app", "name"))),
        *_optional(("stream", WHOLE), ("key", WHOLE)),
        *_required(
            *((name, TEXT) for name in ("kind", "session_kind", "level", "code", "reason", "encoder", "address_hash")),
            ("bytes_in", WHOLE),
            ("bytes_out", WHOLE),
            ("detail", TEXT),
        ),
    ]
)

MEASURED = (
    "samples",
    "elapsed_ms",
    "live_ms",
    "good_ms",
    "warning_ms",
    "bad_ms",
    "starved_ms",
    "targeted_ms",
    "below_ms",
    "video_bytes",
    "audio_bytes",
    "data_bytes",
    "wire_bytes",
    "out_bytes",
    "video_frames",
    "audio_frames",
    "keyframes",
    "ts_gaps",
    "ts_regressions",
    "missing_frames_est",
    "media_faults",
    "dropped_frames",
    "player_ms",
    "kbps_sum",
    "kbps_squares",
    "gop_1",
    "gop_2",
    "gop_2_5",
    "gop_4",
    "gop_6",
    "gop_10",
    "gop_longer",
)
"""Columns that are sums over samples: of a minute, of a session's hour, and of every rollup."""

SESSION_SUMS = (*MEASURED, "starts", "broadcasts", "reconnects", "recovery_ms")
"""Columns of a session's hour that merge by sum."""

EVENT_SUMS = ("ends", "unplanned_ends", "accepted", "refused", "plays")
"""Columns that are counted from events."""

SUMS = (*SESSION_SUMS, *EVENT_SUMS)
"""Columns of a rollup that merge by sum."""

BITRATES = ("video", "audio", "wire")
PERCENTILES = {"p5": 5, "p50": 50, "p95": 95}

SKETCH = ArrayType(FloatType())
"""See analytics.sketches."""

PUBLISH = _required(("session", TEXT), ("node", TEXT), ("app", TEXT), ("name", TEXT), ("stream", WHOLE)) + _optional(
    ("key", WHOLE), ("encoder", TEXT)
)
"""What tells a publishing session and what it belongs to."""

EXTREMES = (
    *_required(("peak_players", WHOLE)),
    *_optional(("keyframe_interval_max", REAL)),
    *_optional(*((f"{kind}_kbps_{figure}", REAL) for kind in BITRATES for figure in ("min", "max"))),
)

MINUTES = StructType(
    [
        *_required(("minute_us", WHOLE)),
        *PUBLISH,
        *_required(("first_us", WHOLE), ("last_us", WHOLE)),
        *_required(("first_sequence", WHOLE), ("last_sequence", WHOLE), ("sequences", WHOLE)),
        *_required(*((name, WHOLE) for name in MEASURED)),
        *EXTREMES,
    ]
)
"""A publishing session's minute. `first_us`: where its first sample begins; `last_us`: where its last one ends.
`sequences`: a bit for each of its samples' numbers, modulo 64.
"""

SESSION_HOURS = StructType(
    [
        *_required(("start_us", WHOLE)),
        *PUBLISH,
        *_required(("first_us", WHOLE), ("last_us", WHOLE), ("broadcast_us", WHOLE)),
        *_required(*((name, WHOLE) for name in SESSION_SUMS)),
        *EXTREMES,
        *_required(*((f"{kind}_sketch", SKETCH) for kind in BITRATES)),
    ]
)
"""A publishing session's hour, and the broadcast it belongs to: where that begins."""

TAIL = StructType(
    _required(("session", TEXT), ("app", TEXT), ("name", TEXT))
    + _required(*((name, WHOLE) for name in ("start_us", "first_us", "last_us", "broadcast_us")))
)
"""What of an hour's SESSION_HOURS the next hour begins with."""

SKETCHES = StructType(
    _required(("start_us", WHOLE), ("session", TEXT), *((f"{kind}_sketch", SKETCH) for kind in BITRATES))
)
"""Of the samples' bitrates in a session's hour."""

HAPPENED = StructType(
    [
        *_required(("start_us", WHOLE), ("what", TEXT), ("session", TEXT)),
        *_required(*((name, TEXT) for name in ("node", "app", "name"))),
        *_optional(("stream", WHOLE), ("key", WHOLE), ("encoder", TEXT)),
        *_required(("reason", TEXT), ("address_hash", TEXT)),
    ]
)
"""An event that is counted: `what` is accepted, refused, ended or played. `start_us`: its hour or day."""

COUNTS = MapType(TEXT, WHOLE)

ROLLUPS = StructType(
    [
        *_required(("start_us", WHOLE), ("dimension", TEXT), ("app", TEXT), ("name", TEXT), ("value", TEXT)),
        *_optional(("stream", WHOLE)),
        *_required(("sessions", WHOLE)),
        *_required(*((name, WHOLE) for name in SUMS)),
        *_optional(("unique_players", WHOLE)),
        *_required(("refusals", COUNTS), ("end_reasons", COUNTS)),
        *_required(("peak_players", WHOLE)),
        *_optional(("peak_at_us", WHOLE)),
        *_required(("peak_streams", WHOLE)),
        *_optional(("keyframe_interval_max", REAL)),
        *_optional(
            *((f"{kind}_kbps_{figure}", REAL) for kind in BITRATES for figure in ("mean", "min", *PERCENTILES, "max"))
        ),
        *_required(*((f"{kind}_sketch", SKETCH) for kind in BITRATES)),
    ]
)
"""Of hours and of days alike: see analytics.models.Rollup."""
