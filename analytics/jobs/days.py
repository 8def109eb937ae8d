"""The rollups of days (UTC), merged from their hours. What can't be merged is counted anew: sessions and players."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from analytics.jobs.dimensions import GROUP, of_each
from analytics.jobs.events import players
from analytics.jobs.merging import rollups
from analytics.jobs.periods import DAY_US, start_of


def days(hours: DataFrame, session_hours: DataFrame, happened: DataFrame) -> DataFrame:
    """ROLLUPS of hours, and SESSION_HOURS and HAPPENED of the same, to ROLLUPS of days."""
    hours, session_hours, happened = (
        frame.withColumn("start_us", start_of("start_us", DAY_US)) for frame in (hours, session_hours, happened)
    )
    used = ("start_us", "session", "app", "name", "stream", "key", "encoder", "node", "broadcast_us")
    sessions = of_each(session_hours.select(*used)).groupBy(*GROUP).agg(F.count_distinct("session").alias("sessions"))
    return rollups(hours.drop("sessions", "unique_players"), sessions, players(happened))
