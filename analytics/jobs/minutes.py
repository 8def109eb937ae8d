"""Each publishing session's minutes, from its samples; and which samples came twice.

This is the one pass over all columns of all samples, so it groups by hashing and shuffles sums only.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from analytics.jobs.periods import HOUR_US, MINUTE_US, start_of
from analytics.jobs.schemas import BITRATES, MEASURED, MINUTES, PUBLISH, names
from analytics.models import GOP_BINS

SILENCE_MS = 2000
"""A publisher starves its stream once nothing has come for so long."""

BELOW = 0.7
"""Video below this part of its target is below target."""

SUMMED = {"ts_gaps": "ts_gap", "ts_regressions": "ts_regress"}
"""Sums whose samples' column has another name."""


def minutes(samples: DataFrame) -> DataFrame:
    """Samples (schemas.SAMPLES), each once, to minutes (schemas.MINUTES)."""
    measures = {**_times(), **_bitrates(), **_keyframe_intervals(), "samples": F.lit(1)}
    sums = [F.coalesce(F.sum(measures.get(name, _own(name))), F.lit(0)).alias(name) for name in MEASURED]
    return (
        samples.groupBy(start_of("at_us", MINUTE_US).alias("minute_us"), *names(PUBLISH))
        .agg(
            F.min(F.col("at_us") - F.col("elapsed_ms") * 1000).alias("first_us"),
            F.max("at_us").alias("last_us"),
            F.min("sequence").alias("first_sequence"),
            F.max("sequence").alias("last_sequence"),
            F.bit_or(F.expr("shiftleft(1L, cast(sequence % 64 as int))")).alias("sequences"),
            *(sum_.cast("bigint").alias(name) for sum_, name in zip(sums, MEASURED, strict=True)),
            F.max("players").alias("peak_players"),
            F.max("keyframe_interval").alias("keyframe_interval_max"),
            *(
                figure(f"{kind}_kbps").alias(f"{kind}_kbps_{figure.__name__}")
                for kind in BITRATES
                for figure in (F.min, F.max)
            ),
        )
        .select(*MINUTES.fieldNames())
    )


def doubtful(minutes: DataFrame) -> DataFrame:
    """The sessions (`session`) of minutes that may have samples twice. None is missed; few are here without reason.

    A copy has its original's time. So samples come once where each minute has as many bits as samples, and begins
    after the last number of the minute before.
    """
    before = Window.partitionBy("session").orderBy("minute_us", "first_sequence")
    overlaps = F.col("first_sequence") <= F.lag("last_sequence", 1, -1).over(before)
    return (
        minutes.select("session", "samples", "sequences", overlaps.alias("overlaps"))
        .where(F.col("overlaps") | (F.bit_count("sequences") != F.col("samples")))
        .select("session")
        .distinct()
    )


def each_once(samples: DataFrame, sessions: DataFrame) -> DataFrame:
    """The samples without those of the sessions that came before. Of two that differ, always the same one is left."""
    twice = samples.join(F.broadcast(sessions), "session", "left_semi")
    once = twice.groupBy("session", "sequence").agg(F.max(F.struct(*samples.columns)).alias("sample"))
    rest = samples.join(F.broadcast(sessions), "session", "left_anti")
    return rest.unionByName(once.select("sample.*"))


def hour_of_minute() -> Column:
    return start_of("minute_us", HOUR_US).alias("start_us")


def _own(name: str) -> Column:
    return F.col(SUMMED.get(name, name))


def _when(condition: Column, value: Column) -> Column:
    return F.when(condition, value).otherwise(F.lit(0))


def _times() -> dict[str, Column]:
    time = F.col("elapsed_ms")
    arrived = (F.col("video_bytes") + F.col("audio_bytes")) > 0
    targeted = arrived & F.col("target_kbps").isNotNull()
    silent = F.greatest(F.lit(0), F.col("idle_ms") - F.lit(SILENCE_MS))
    return {
        "live_ms": _when(arrived, time),
        **{f"{health}_ms": _when(F.col("health") == health, time) for health in ("good", "warning", "bad")},
        "starved_ms": F.least(time, silent),
        "targeted_ms": _when(targeted, time),
        "below_ms": _when(targeted & (F.col("video_kbps") < F.lit(BELOW) * F.col("target_kbps")), time),
        "player_ms": F.col("players") * time,
    }


def _bitrates() -> dict[str, Column]:
    whole = F.floor(F.col("video_kbps") + F.lit(0.5))
    return {"kbps_sum": whole, "kbps_squares": whole * whole}


def _keyframe_intervals() -> dict[str, Column]:
    interval = F.col("keyframe_interval")
    bins, over = {}, F.col("keyframes") > 0
    for name, longest in GOP_BINS.items():
        bins[name] = _when(over & (interval <= F.lit(longest)), F.lit(1))
        over &= interval > F.lit(longest)
    return bins
