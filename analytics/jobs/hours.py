"""The rollups of hours: each dimension's groups of session hours, their peaks, and what happened in them."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from analytics.jobs.dimensions import GROUP, of_each
from analytics.jobs.events import counted, players, with_broadcasts
from analytics.jobs.merging import peak, rollups
from analytics.jobs.minutes import hour_of_minute


def hours(session_hours: DataFrame, minutes: DataFrame, happened: DataFrame, tail: DataFrame) -> DataFrame:
    """SESSION_HOURS, their MINUTES, HAPPENED of the same hours and the TAIL of the hour before, to ROLLUPS."""
    measured = of_each(session_hours.drop("peak_players")).withColumn("sessions", F.lit(1).cast("bigint"))
    events = counted(with_broadcasts(happened, session_hours, tail))
    return rollups(measured, peaks(minutes, session_hours), events, players(happened))


def peaks(minutes: DataFrame, session_hours: DataFrame) -> DataFrame:
    """Each GROUP's `peak_players`, `peak_at_us` and `peak_streams`.

    All sessions of a stream have the same players: of two in one minute, the one with more tells how many there were.
    """
    broadcasts = session_hours.select("start_us", "session", "broadcast_us")
    of_minute = minutes.withColumn("start_us", hour_of_minute()).join(broadcasts, ["start_us", "session"])
    path, is_live = F.concat_ws("/", "app", "name").alias("path"), F.col("live_ms") > 0
    used = ("start_us", "minute_us", "app", "name", "stream", "key", "encoder", "node", "broadcast_us", "peak_players")
    return (
        of_each(of_minute.select(*used, path, is_live.cast("bigint").alias("is_live")))
        .groupBy(*GROUP, "minute_us", "path")
        .agg(F.max("peak_players").alias("players"), F.max("is_live").alias("is_live"))
        .groupBy(*GROUP, "minute_us")
        .agg(F.sum("players").alias("peak_players"), F.sum("is_live").alias("peak_streams"))
        .groupBy(*GROUP)
        .agg(*peak("minute_us"))
    )
