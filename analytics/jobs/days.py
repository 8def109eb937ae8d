"""The rollups of days (UTC), merged from their hours. What can't be merged is counted anew: sessions and players."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from analytics.jobs.dimensions import GROUP, USED, of_each
from analytics.jobs.events import players
from analytics.jobs.merging import rollups
from analytics.jobs.periods import DAY_US, start_of
from analytics.jobs.sql import listed, query


def days(hours: DataFrame, session_hours: DataFrame, happened: DataFrame) -> DataFrame:
    """ROLLUPS of hours, and SESSION_HOURS and HAPPENED of the same, to ROLLUPS of days."""
    day = F.expr(start_of("start_us", DAY_US))
    hours, session_hours, happened = (frame.withColumn("start_us", day) for frame in (hours, session_hours, happened))
    group = listed(GROUP)
    sessions = query(
        f"SELECT {group}, count(DISTINCT session) AS sessions FROM {{each}} GROUP BY {group}",
        each=of_each(session_hours.select("start_us", "session", *USED)),
    )
    return rollups(hours.drop("sessions", "unique_players"), sessions, players(happened))
