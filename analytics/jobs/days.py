"""The rollups of days (UTC), merged from their hours and from nothing else: what hours were made from may be gone."""

from pyspark.sql import DataFrame

from analytics.jobs.dimensions import GROUP, GROUP_ID, of_each
from analytics.jobs.minutes import HOUR_US
from analytics.jobs.periods import start_of
from analytics.jobs.rollups import added, columns, peak, rates
from analytics.jobs.sql import listed, merged, named, query
from analytics.metrics import BITRATES, COUNTED, METRICS

DAY_US = 24 * HOUR_US


def days(hours: DataFrame, session_hours: DataFrame) -> DataFrame:
    """ROLLUPS of hours, and SESSION_HOURS of the same, to ROLLUPS of days."""
    return query(_DAYS, hours=hours, session_hours=session_hours)


_GROUP = listed(GROUP)
_DAY = start_of("start_us", DAY_US)
_OF_DAY = f"(SELECT * EXCEPT (start_us), {_DAY} AS start_us FROM {{}})"

_FIGURES = {
    "stream": "max(stream)",
    **merged(METRICS),
    **peak("peak_at_us", "start_us"),
    **{metric.name: added(metric.name) for metric in COUNTED},
    "players_sketch": "hll_union_agg(players_sketch)",
}

_KINDS = " UNION ALL ".join(
    f"SELECT group_id, '{kind}' AS kind, explode({kind}_histogram) AS each FROM of_day" for kind in BITRATES
)

_DAYS = f"""
    WITH
    of_day AS (SELECT *, {GROUP_ID} AS group_id FROM {_OF_DAY.format("{hours}")}),
    measured AS (SELECT {_GROUP}, group_id, {named(_FIGURES)} FROM of_day GROUP BY {_GROUP}, group_id),
    counted AS (
        SELECT {_GROUP}, count(*) AS sessions
        FROM (SELECT DISTINCT {_GROUP}, session FROM ({of_each(_OF_DAY.format("{session_hours}"), ("session",))}))
        GROUP BY {_GROUP}
    ),
    counts AS (SELECT group_id, kind, each.bucket AS bucket, each.count AS count FROM ({_KINDS})),
    {rates("counts")}
    SELECT {columns({"sessions": "coalesce(sessions, 0)"})}
    FROM measured LEFT JOIN counted USING ({_GROUP}) LEFT JOIN rates USING (group_id)
"""
