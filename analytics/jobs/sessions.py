"""Each publishing session's hours, and which broadcast they belong to."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from analytics.jobs.merging import extreme_of
from analytics.jobs.minutes import hour_of_minute
from analytics.jobs.periods import HOUR_US
from analytics.jobs.schemas import EXTREMES, MEASURED, PUBLISH, SESSION_HOURS, TAIL, names

GAP_US = 300_000_000
"""Sessions of one stream with a longer gap between them are of two broadcasts."""

TAIL_US = 2 * GAP_US
"""What ended so long before its hour's end is of no broadcast that goes on: a sample may begin before its hour."""

START = 1
"""A session's first sample has this sequence number."""


def session_hours(minutes: DataFrame, sketches: DataFrame, tail: DataFrame) -> DataFrame:
    """Minutes (schemas.MINUTES) of some hours one after another, SKETCHES of the same, and the TAIL of the hour before
    them, to SESSION_HOURS.
    """
    hours = minutes.groupBy(hour_of_minute(), *names(PUBLISH)).agg(
        F.min("first_us").alias("first_us"),
        F.max("last_us").alias("last_us"),
        F.min("first_sequence").alias("first_sequence"),
        *(F.sum(name).alias(name) for name in MEASURED),
        *(extreme_of(name) for name in names(EXTREMES)),
    )
    return (
        _joined(hours.unionByName(tail.withColumn("is_tail", F.lit(True)), allowMissingColumns=True))
        .where("is_tail is null")
        .join(sketches, ["start_us", "session"])
        .select(*SESSION_HOURS.fieldNames())
    )


def tail_of(session_hours: DataFrame) -> DataFrame:
    """SESSION_HOURS to what of them (schemas.TAIL) the next hours begin with."""
    return session_hours.where(F.col("last_us") >= F.col("start_us") + F.lit(HOUR_US - TAIL_US)).select(
        *TAIL.fieldNames()
    )


def _joined(hours: DataFrame) -> DataFrame:
    """Adds the broadcast, and what a session's start was: the begin of one, or a reconnect after so long a gap."""
    stream = Window.partitionBy("app", "name").orderBy("start_us", "first_us", "session")
    before = F.max("last_us").over(stream.rowsBetween(Window.unboundedPreceding, -1))
    gap = F.col("first_us") - F.col("before_us")
    goes_on = F.coalesce(gap <= F.lit(GAP_US), F.lit(False))
    begin = F.coalesce(F.col("broadcast_us"), F.when(~goes_on, F.col("first_us")))
    starts = F.col("first_sequence") <= F.lit(START)
    recovery = F.floor(F.greatest(gap, F.lit(0)) / F.lit(1000))
    return (
        hours.withColumn("before_us", before)
        .withColumns({"broadcast_us": F.last(begin, ignorenulls=True).over(stream), "goes_on": goes_on})
        .withColumns(
            {
                "starts": _one(starts),
                "broadcasts": _one(starts & ~F.col("goes_on")),
                "reconnects": _one(starts & F.col("goes_on")),
                "recovery_ms": F.when(starts & F.col("goes_on"), recovery).otherwise(F.lit(0)),
            }
        )
    )


def _one(condition: Column) -> Column:
    return condition.cast("bigint")
