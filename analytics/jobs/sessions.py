"""Each publishing session's hours, and which broadcast they belong to.

A broadcast's name is the time at which it begins, as that was known when it was first computed. It is kept: what comes
late for its first hour must not name it anew in all that follow, which would then have to be computed again. So hours
that others have gone on from name their sessions' broadcasts as before (schemas.GIVEN), and an hour that comes late
before others takes their names over.
"""

from pyspark.sql import DataFrame

from analytics.jobs.schemas import PUBLISH, SESSION_HOURS
from analytics.jobs.sql import listed, merged, named, query
from analytics.metrics import EXTREMES, MEASURED

GAP_US = 300_000_000
"""Sessions of one stream with a longer gap between them are of two broadcasts."""

TAIL_US = 2 * GAP_US
"""What ended so long before its hour's end is of no broadcast that goes on: a sample may begin before its hour."""

START = 1
"""A session's first sample has this sequence number."""


def session_hours(sessions: DataFrame, tail: DataFrame, given: DataFrame) -> DataFrame:
    """SESSIONS of some hours one after another, the TAIL of the hour before them, and the broadcasts
    that are GIVEN, to SESSION_HOURS.
    """
    return query(_SESSION_HOURS, sessions=sessions, tail=tail, given=given)


_HOUR = named(
    {
        **{name: name for name in ("start_us", *PUBLISH)},
        "first_us": "min(first_us)",
        "last_us": "max(last_us)",
        "first_sequence": "min(first_sequence)",
        **merged((*MEASURED, *EXTREMES)),
    }
)
_STREAM = "PARTITION BY app, name ORDER BY start_us, first_us, session, first_sequence"
_ISLAND = "PARTITION BY app, name, island ORDER BY start_us, first_us, session, first_sequence"
_STARTS = f"first_sequence <= {START}"

_SESSION_HOURS = f"""
    WITH
    before AS (
        SELECT app, name, last_us AS before_us, broadcast_us AS before_broadcast_us FROM {{tail}} WHERE session = ''
    ),
    hours AS (
        SELECT * FROM (SELECT {_HOUR} FROM {{sessions}} GROUP BY {listed(("start_us", *PUBLISH))})
        LEFT JOIN (SELECT start_us, session, broadcast_us AS given_us FROM {{given}}) USING (start_us, session)
        LEFT JOIN before USING (app, name)
    ),
    gaps AS (
        SELECT *, first_us - coalesce(
            max(last_us) OVER ({_STREAM} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), before_us
        ) AS gap_us
        FROM hours
    ),
    joined AS (
        SELECT *, coalesce(gap_us <= {GAP_US}, false) AS goes_on FROM gaps
    ),
    islands AS (
        SELECT *, sum(if(goes_on, 0, 1)) OVER ({_STREAM} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS island
        FROM joined
    ),
    called AS (
        SELECT *, coalesce(
            last(given_us, true) OVER ({_ISLAND} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW),
            if(island = 0, before_broadcast_us, NULL),
            first(given_us, true) OVER ({_ISLAND} ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING),
            first(first_us) OVER ({_ISLAND} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
        ) AS broadcast_us
        FROM islands
    ),
    counted AS (
        SELECT *,
            cast({_STARTS} AS bigint) AS starts,
            cast({_STARTS} AND NOT goes_on AS bigint) AS broadcasts,
            cast({_STARTS} AND goes_on AS bigint) AS reconnects,
            if({_STARTS} AND goes_on, greatest(gap_us, 0) div 1000, 0) AS recovery_ms
        FROM called
    )
    SELECT {listed(SESSION_HOURS)} FROM counted
"""
"""Stretches without a long gap are islands; those that go on from the hour before are number 0. And what a session's
start was: the begin of a broadcast, or a reconnect after so long a gap.
"""
