"""The rollups of hours: each dimension's groups of session hours, their peaks, and what happened in them."""

from pyspark.sql import DataFrame

from analytics.jobs.dimensions import GROUP, GROUP_ID, groups_of, of_each
from analytics.jobs.events import EVENTS
from analytics.jobs.minutes import HOUR_US
from analytics.jobs.periods import start_of
from analytics.jobs.rollups import columns, peak, rates
from analytics.jobs.schemas import SUMS_OF_EVENTS, SUMS_OF_SESSIONS
from analytics.jobs.sql import listed, merged, named, query
from analytics.metrics import EXTREMES, MEASURED, STARTED


def hours(
    session_hours: DataFrame, minutes: DataFrame, buckets: DataFrame, events: DataFrame, tail: DataFrame, first_us: int
) -> DataFrame:
    """SESSION_HOURS, their MINUTES, BUCKETS and EVENTS, and the TAIL of the hour before the first (`first_us`), to
    ROLLUPS.
    """
    text = _HOURS.replace("{first}", f"{first_us}L")
    return query(text, session_hours=session_hours, minutes=minutes, buckets=buckets, events=events, tail=tail)


_GROUP = listed(GROUP)
_HOUR = start_of("minute_us", HOUR_US)
_MERGED = {name: how for name, how in merged((*MEASURED, *STARTED, *EXTREMES)).items() if name != "peak_players"}

_HOURS = f"""
    WITH
    measured AS (
        SELECT {_GROUP}, {GROUP_ID} AS group_id, max(stream) AS stream, count(*) AS sessions, {named(_MERGED)}
        FROM (
            SELECT {_GROUP}, session, max(stream) AS stream, {named(_MERGED)}
            FROM ({of_each("{session_hours}", ("session", *_MERGED))})
            GROUP BY {_GROUP}, session
        )
        GROUP BY {_GROUP}
    ),
    broadcast_of AS (
        SELECT start_us, session, min(broadcast_us) AS broadcast_us FROM {{session_hours}} GROUP BY start_us, session
    ),
    of_minute AS (
        SELECT minute_us, explode({groups_of()}) AS group_id, xxhash64(app, name) AS path, peak_players,
            cast(live_ms > 0 AS bigint) AS is_live
        FROM (SELECT *, {_HOUR} AS start_us FROM {{minutes}}) JOIN broadcast_of USING (start_us, session)
    ),
    of_paths AS (
        SELECT group_id, minute_us, path, max(peak_players) AS players, max(is_live) AS is_live
        FROM of_minute GROUP BY group_id, minute_us, path
    ),
    of_minutes AS (
        SELECT group_id, minute_us, sum(players) AS peak_players, sum(is_live) AS peak_streams
        FROM of_paths GROUP BY group_id, minute_us
    ),
    peaks AS (SELECT group_id, {named(peak("minute_us", _HOUR))} FROM of_minutes GROUP BY group_id),
    counts AS (
        SELECT explode({groups_of()}) AS group_id, kind, bucket, count
        FROM {{buckets}} JOIN broadcast_of USING (start_us, session)
    ),
    {rates("counts")},
    {EVENTS}
    SELECT {
    columns(
        {
            "stream": "coalesce(stream, event_stream)",
            "sessions": "coalesce(sessions, 0)",
            **{name: f"coalesce({name}, 0)" for name in (*SUMS_OF_SESSIONS, *SUMS_OF_EVENTS)},
            **{name: f"coalesce({name}, map())" for name in ("refusals", "end_reasons")},
            **{name: f"coalesce({name}, 0)" for name in ("peak_players", "peak_streams")},
        }
    )
}
    FROM measured JOIN peaks USING (group_id) JOIN rates USING (group_id) FULL JOIN events_of USING ({_GROUP})
"""
"""Sessions are counted once in each group, whatever labels they had. All sessions of a stream have the same players: of
two in one minute, the one with more tells how many there were.
"""
