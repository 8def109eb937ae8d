"""What happened to sessions, counted: publishes accepted and refused, ends by reason, players that began, and what
viewers' pages told as they ended."""

from pyspark.sql import DataFrame

from analytics.jobs.dimensions import GROUP, PLAYERS_OF, listed, named, of_each, start_of
from analytics.jobs.minutes import HOUR_US
from analytics.jobs.sessions import TAIL_US
from analytics.metrics import EVENT_SUMS, REASON_COUNTS, SKETCH_BITS
from analytics.schemas import COUNTS, HAPPENED_IN, REPORTED
from ingest.contracts import ENDS

DAY_US = 24 * HOUR_US

PLANNED = tuple(reason for reason, end in ENDS.items() if end.is_expected)
"""Ends that somebody meant; all others are unplanned. SQL has a tuple as Python writes it."""

KINDS = {
    "accepted": "kind = 'session.started' and session_kind = 'publish'",
    "refused": "kind = 'attempt' and session_kind in ('publish', '')",
    "ended": "kind = 'session.ended' and session_kind = 'publish'",
    "played": "kind = 'session.started' and session_kind = 'play'",
    "watched": f"kind = 'session.ended' and session_kind = 'play' and coalesce({', '.join(REPORTED)}) is not null",
}
"""In SQL. An attempt to connect has no kind yet, and would mostly have become a publish."""

WATCHED = ("join_ms", "stalled_ms", "watched_ms")
"""Of what a viewer's page tells at its end, what is summed."""

KNOWN = """
    (dimension != 'stream' or stream > 0) and (dimension != 'app' or (app != '' and app not like '%…'))
"""
"""What is no known stream's or application's name is masked, or a wrong one."""


def happened_in_hours(session_hours: DataFrame, events: DataFrame, tail: DataFrame, first_us: int) -> DataFrame:
    """SESSION_HOURS, their EVENTS, and the TAIL of the hour before the first (`first_us`), to HAPPENED_IN."""
    text = _HOURS.replace("{first}", f"{first_us}L")
    return events.sparkSession.sql(text, session_hours=session_hours, events=events, tail=tail)


def happened_in_days(hours: DataFrame) -> DataFrame:
    """The same of days, from the HAPPENED_IN of their hours."""
    return hours.sparkSession.sql(_DAYS, hours=hours)


def _sum(condition: str) -> str:
    return f"sum(if({condition}, times, 0))"


def _by_reason(condition: str) -> str:
    return f"map_from_entries(sort_array(collect_list(CASE WHEN {condition} THEN struct(reason, times) END)))"


_KIND = " ".join(f"WHEN {condition} THEN '{kind}'" for kind, condition in KINDS.items())

_COUNTED = named(
    {
        "stream": "max(stream)",
        "accepted": _sum("what = 'accepted'"),
        "refused": _sum("what = 'refused'"),
        "plays": _sum("what = 'played'"),
        "ends": _sum("what = 'ended'"),
        "unplanned_ends": _sum(f"what = 'ended' AND reason NOT IN {PLANNED}"),
        "viewer_reports": _sum("what = 'watched'"),
        "viewer_joins": "sum(joins)",
        **{f"viewer_{name}": f"sum({name})" for name in WATCHED},
        "refusals": _by_reason("what = 'refused'"),
        "end_reasons": _by_reason("what = 'ended'"),
        # The union has the estimate that does not depend on the order in which players came.
        "players_sketch": "hll_union_agg(sketch)",
    }
)

_WATCHED = {name: f"sum(if(what = 'watched', coalesce({name}, 0), 0))" for name in WATCHED}

_HAPPENED_IN = named({name: name for name in HAPPENED_IN} | {"unique_players": "hll_sketch_estimate(players_sketch)"})

_COLUMNS = ("what", "session", "reason", "address_hash", *WATCHED)

_HOURS = f"""
    WITH
    happened AS (
        SELECT *, {start_of("at_us", HOUR_US)} AS start_us, CASE {_KIND} END AS what
        FROM (SELECT DISTINCT * FROM {{events}})
    ),
    known AS (
        SELECT start_us, session, min_by(broadcast_us, place) AS broadcast_us, min_by(called, place) AS called
        FROM (
            SELECT start_us, session, broadcast_us, encoder AS called,
                struct(0, -last_us, coalesce(encoder, '')) AS place
            FROM {{session_hours}}
            UNION ALL SELECT start_us + {HOUR_US}, session, broadcast_us, NULL, struct(1, 0L, '') FROM {{session_hours}}
            WHERE last_us >= start_us + {HOUR_US - TAIL_US}
            UNION ALL SELECT {{first}}, session, broadcast_us, NULL, struct(1, 0L, '') FROM {{tail}} WHERE session != ''
        )
        GROUP BY start_us, session
    ),
    told AS (
        SELECT * EXCEPT (encoder, called), coalesce(called, encoder) AS encoder
        FROM happened LEFT JOIN known USING (start_us, session)
        WHERE what IS NOT NULL
    ),
    publishing AS (
        {of_each("told", _COLUMNS)}
        WHERE what IN ('accepted', 'ended') AND (each.dimension != 'broadcast' OR broadcast_us IS NOT NULL)
    ),
    others AS ({of_each("told", _COLUMNS, PLAYERS_OF)} WHERE what IN ('refused', 'played', 'watched')),
    counted AS (
        SELECT {listed(GROUP)}, {_COUNTED}
        FROM (
            SELECT {listed(GROUP)}, what, reason, count(*) AS times, max(stream) AS stream,
                count(if(what = 'watched', join_ms, null)) AS joins, {named(_WATCHED)},
                hll_sketch_agg(CASE WHEN what = 'played' THEN address_hash END, {SKETCH_BITS}) AS sketch
            FROM (SELECT * FROM publishing UNION ALL SELECT * FROM others)
            WHERE {KNOWN}
            GROUP BY {listed(GROUP)}, what, reason
        )
        GROUP BY {listed(GROUP)}
    )
    SELECT {_HAPPENED_IN} FROM counted
"""
"""A copy of an event equals its original in every column; attempts have nothing else to tell them by. An event
counts for the broadcast of its session's hour, else, for what ends just after it, of the hour before; and for the
encoder that the hour's samples name: a session begins before its metadata say more than flashVer.
"""


def _added(counts: str) -> str:
    """Maps of counts to one."""
    total = f"""
        aggregate(collect_list({counts}), cast(map() AS {COUNTS}), (sums, more) ->
            map_zip_with(sums, more, (_, one, other) -> coalesce(one, 0) + coalesce(other, 0)))
    """
    return f"map_from_entries(sort_array(map_entries({total})))"


_MERGED = {
    "stream": "max(stream)",
    **{metric.name: f"sum({metric.name})" for metric in EVENT_SUMS},
    **{metric.name: _added(metric.name) for metric in REASON_COUNTS},
    "players_sketch": "hll_union_agg(players_sketch)",
}

_DAYS = f"""
    WITH
    counted AS (
        SELECT {listed(GROUP)}, {named(_MERGED)}
        FROM (SELECT * EXCEPT (start_us), {start_of("start_us", DAY_US)} AS start_us FROM {{hours}})
        WHERE {" + ".join(metric.name for metric in EVENT_SUMS)} > 0
        GROUP BY {listed(GROUP)}
    )
    SELECT {_HAPPENED_IN} FROM counted
"""
