"""The hour's rollup: one row for each stream and hour, from samples."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from analytics.jobs.rollups import HOUR_US, SKETCH_K, finish, start_of
from analytics.jobs.schemas import BITRATES

RENAMED = {"ts_gaps": "ts_gap", "ts_regressions": "ts_regress"}
SUMMED = (
    "elapsed_ms",
    "video_bytes",
    "audio_bytes",
    "data_bytes",
    "wire_bytes",
    "out_bytes",
    "video_frames",
    "audio_frames",
    "keyframes",
    "missing_frames_est",
    "dropped_frames",
)
READ = (
    "session",
    "sequence",
    "at_us",
    "app",
    "name",
    "stream",
    *SUMMED,
    *RENAMED.values(),
    "players",
    "keyframe_interval",
    *(f"{kind}_kbps" for kind in BITRATES),
    "health",
)


def hourly(samples: DataFrame) -> DataFrame:
    """Samples (schemas.SAMPLES) to hour rollups (schemas.ROLLUPS). A sample that comes twice counts once."""
    once = samples.select(*READ).dropDuplicates(["session", "sequence"])
    time = F.col("elapsed_ms")
    arrived = (F.col("video_bytes") + F.col("audio_bytes")) > 0
    merged = once.groupBy(start_of("at_us", HOUR_US).alias("start_us"), "app", "name").agg(
        F.max("stream").alias("stream"),
        F.collect_set("session").alias("session_ids"),
        F.count("*").alias("samples"),
        *(F.sum(column).alias(column) for column in SUMMED),
        *(F.sum(column).alias(name) for name, column in RENAMED.items()),
        F.sum(F.when(arrived, time).otherwise(0)).alias("live_ms"),
        *(
            F.sum(F.when(F.col("health") == health, time).otherwise(0)).alias(f"{health}_ms")
            for health in ("good", "warning", "bad")
        ),
        F.sum(F.col("players") * time).alias("player_ms"),
        F.max("players").alias("peak_players"),
        F.max("keyframe_interval").alias("keyframe_interval_max"),
        *(F.min(f"{kind}_kbps").alias(f"{kind}_kbps_min") for kind in BITRATES),
        *(F.max(f"{kind}_kbps").alias(f"{kind}_kbps_max") for kind in BITRATES),
        *(F.kll_sketch_agg_double(f"{kind}_kbps", SKETCH_K).alias(f"{kind}_sketch") for kind in BITRATES),
    )
    return finish(merged)
