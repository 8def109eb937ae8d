"""Each publishing session's hours, and which broadcast they belong to."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from analytics.jobs.merging import extremes
from analytics.jobs.minutes import HOUR_OF_MINUTE
from analytics.jobs.periods import HOUR_US
from analytics.jobs.schemas import MEASURED, PUBLISH, SESSION_HOURS, TAIL, names
from analytics.jobs.sql import listed, named, query

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
    hours = query(f"SELECT {_HOUR} FROM {{minutes}} GROUP BY {_GROUP}", minutes=minutes)
    of_before = tail.withColumn("is_tail", F.lit(True))
    together = hours.unionByName(of_before, allowMissingColumns=True)
    return query(_SESSION_HOURS, hours=together, sketches=sketches)


def tail_of(session_hours: DataFrame) -> DataFrame:
    """SESSION_HOURS to what of them (schemas.TAIL) the next hours begin with."""
    return session_hours.where(f"last_us >= start_us + {HOUR_US - TAIL_US}").select(*TAIL.fieldNames())


_HOUR = named(
    {
        "start_us": HOUR_OF_MINUTE,
        **{name: name for name in names(PUBLISH)},
        "first_us": "min(first_us)",
        "last_us": "max(last_us)",
        "first_sequence": "min(first_sequence)",
        **{name: f"sum({name})" for name in MEASURED},
        **extremes(),
    }
)
_GROUP = listed((HOUR_OF_MINUTE, *names(PUBLISH)))

_STREAM = "PARTITION BY app, name ORDER BY start_us, first_us, session"
_STARTS = f"first_sequence <= {START}"
_SESSION_HOURS = f"""
    WITH
    gaps AS (
        SELECT *,
            first_us - max(last_us) OVER ({_STREAM} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS gap_us
        FROM {{hours}}
    ),
    begins AS (
        SELECT * EXCEPT (broadcast_us), coalesce(gap_us <= {GAP_US}, false) AS goes_on,
            coalesce(broadcast_us, CASE WHEN NOT coalesce(gap_us <= {GAP_US}, false) THEN first_us END) AS begin_us
        FROM gaps
    ),
    joined AS (
        SELECT *, last(begin_us, true) OVER ({_STREAM}) AS broadcast_us FROM begins
    ),
    counted AS (
        SELECT *,
            cast({_STARTS} AS bigint) AS starts,
            cast({_STARTS} AND NOT goes_on AS bigint) AS broadcasts,
            cast({_STARTS} AND goes_on AS bigint) AS reconnects,
            if({_STARTS} AND goes_on, greatest(gap_us, 0) div 1000, 0) AS recovery_ms
        FROM joined
        WHERE is_tail IS NULL
    )
    SELECT {listed(SESSION_HOURS.fieldNames())} FROM counted JOIN {{sketches}} USING (start_us, session)
"""
"""Adds the broadcast, and what a session's start was: the begin of one, or a reconnect after so long a gap."""
