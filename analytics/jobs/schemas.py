"""The schemas that the jobs read and write. SAMPLES is the lake's, as `ingest.contracts` declares it."""

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

TEXT, WHOLE, REAL = StringType(), LongType(), DoubleType()


def _required(*columns: tuple[str, DataType]) -> list[StructField]:
    return [StructField(name, kind, nullable=False) for name, kind in columns]


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
        *_required(("ts_gap", WHOLE), ("ts_regress", WHOLE), ("missing_frames_est", WHOLE), ("idle_ms", WHOLE)),
        *_optional(("rtt_ms", REAL), ("retrans", WHOLE)),
        *_required(
            ("players", WHOLE),
            ("out_bytes", WHOLE),
            ("out_kbps", REAL),
            ("slow_players", WHOLE),
            ("dropped_frames", WHOLE),
            ("health", TEXT),
        ),
    ]
)

SUMS = (
    "samples",
    "elapsed_ms",
    "live_ms",
    "good_ms",
    "warning_ms",
    "bad_ms",
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
    "dropped_frames",
    "player_ms",
)
"""Columns of a rollup that merge by sum."""

BITRATES = ("video", "audio", "wire")
QUANTILES = {"p5": 0.05, "p50": 0.5, "p95": 0.95}


def _bitrate(kind: str) -> list[StructField]:
    return _optional(*((f"{kind}_kbps_{figure}", REAL) for figure in ("mean", "min", *QUANTILES, "max")))


ROLLUPS = StructType(
    [
        *_required(("start_us", WHOLE), ("app", TEXT), ("name", TEXT), ("stream", WHOLE)),
        *_required(("sessions", WHOLE)),
        *_required(*((name, WHOLE) for name in SUMS)),
        *_required(("peak_players", WHOLE)),
        *_optional(("keyframe_interval_max", REAL)),
        *(field for kind in BITRATES for field in _bitrate(kind)),
        *_required(("session_ids", ArrayType(TEXT, containsNull=False))),
        *_required(*((f"{kind}_sketch", BinaryType()) for kind in BITRATES)),
    ]
)
"""Of hours and of days alike. The last four columns are what larger grains are merged from."""
