"""The rollups of hours: each dimension's groups of session hours, their peaks, and what happened in them."""

from pyspark.sql import DataFrame

from analytics.jobs.dimensions import GROUP, USED, of_each
from analytics.jobs.events import counted, players, with_broadcasts
from analytics.jobs.merging import peak, rollups
from analytics.jobs.minutes import HOUR_OF_MINUTE
from analytics.jobs.sql import listed, named, query


def hours(session_hours: DataFrame, minutes: DataFrame, happened: DataFrame, tail: DataFrame) -> DataFrame:
    """SESSION_HOURS, their MINUTES, HAPPENED of the same hours and the TAIL of the hour before, to ROLLUPS."""
    measured = query("SELECT *, 1L AS sessions FROM {each}", each=of_each(session_hours.drop("peak_players")))
    events = counted(with_broadcasts(happened, session_hours, tail))
    return rollups(measured, peaks(minutes, session_hours), events, players(happened))


def peaks(minutes: DataFrame, session_hours: DataFrame) -> DataFrame:
    """Each GROUP's `peak_players`, `peak_at_us` and `peak_streams`.

    All sessions of a stream have the same players: of two in one minute, the one with more tells how many there were.
    """
    of_minute = query(
        f"""
        SELECT start_us, minute_us, {listed(USED)}, peak_players, concat_ws('/', app, name) AS path,
            cast(live_ms > 0 AS bigint) AS is_live
        FROM (SELECT *, {HOUR_OF_MINUTE} AS start_us FROM {{minutes}})
        JOIN (SELECT start_us, session, broadcast_us FROM {{session_hours}}) USING (start_us, session)
        """,
        minutes=minutes,
        session_hours=session_hours,
    )
    group = listed(GROUP)
    return query(
        f"""
        WITH
        paths AS (
            SELECT {group}, minute_us, path, max(peak_players) AS players, max(is_live) AS is_live
            FROM {{each}} GROUP BY {group}, minute_us, path
        ),
        minutes AS (
            SELECT {group}, minute_us, sum(players) AS peak_players, sum(is_live) AS peak_streams
            FROM paths GROUP BY {group}, minute_us
        )
        SELECT {group}, {named(peak("minute_us"))} FROM minutes GROUP BY {group}
        """,
        each=of_each(of_minute),
    )
