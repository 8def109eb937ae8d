"""What happened to sessions, counted: publishes accepted and refused, ends by reason, players that began."""

from analytics.jobs.dimensions import GROUP, PLAYERS_OF, of_each
from analytics.jobs.minutes import HOUR_US
from analytics.jobs.periods import start_of
from analytics.jobs.sessions import TAIL_US
from analytics.jobs.sql import listed, named, texts
from analytics.metrics import SKETCH_BITS

PLANNED = (
    "client_unpublish",
    "completed",
    "kicked",
    "key_revoked",
    "replaced",
    "node_shutdown",
    "test_over",
)
"""Ends that the encoder or the server meant; all others are unplanned."""

KINDS = {
    "accepted": "kind = 'session.started' and session_kind = 'publish'",
    "refused": "kind = 'attempt' and session_kind in ('publish', '')",
    "ended": "kind = 'session.ended' and session_kind = 'publish'",
    "played": "kind = 'session.started' and session_kind = 'play'",
}
"""In SQL. An attempt to connect has no kind yet, and would mostly have become a publish."""

KNOWN = """
    (dimension != 'stream' or stream > 0) and (dimension != 'app' or (app != '' and app not like '%…'))
"""
"""What is no known stream's or application's name is masked, or a wrong one."""


def _sum(condition: str) -> str:
    return f"sum(if({condition}, times, 0))"


def _by_reason(condition: str) -> str:
    return f"map_from_entries(sort_array(collect_list(CASE WHEN {condition} THEN struct(reason, times) END)))"


_WHAT = " ".join(f"WHEN {condition} THEN '{what}'" for what, condition in KINDS.items())

_COUNTED = named(
    {
        "event_stream": "max(stream)",
        "accepted": _sum("what = 'accepted'"),
        "refused": _sum("what = 'refused'"),
        "plays": _sum("what = 'played'"),
        "ends": _sum("what = 'ended'"),
        "unplanned_ends": _sum(f"what = 'ended' AND reason NOT IN {texts(PLANNED)}"),
        "refusals": _by_reason("what = 'refused'"),
        "end_reasons": _by_reason("what = 'ended'"),
        # The union has the estimate that does not depend on the order in which players came.
        "players_sketch": "hll_union_agg(sketch)",
    }
)

_COLUMNS = ("what", "session", "reason", "address_hash")

EVENTS = f"""
    happened AS (
        SELECT *, {start_of("at_us", HOUR_US)} AS start_us, CASE {_WHAT} END AS what
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
    others AS ({of_each("told", _COLUMNS, PLAYERS_OF)} WHERE what IN ('refused', 'played')),
    events_of AS (
        SELECT {listed(GROUP)}, {_COUNTED}
        FROM (
            SELECT {listed(GROUP)}, what, reason, count(*) AS times, max(stream) AS stream,
                hll_sketch_agg(CASE WHEN what = 'played' THEN address_hash END, {SKETCH_BITS}) AS sketch
            FROM (SELECT * FROM publishing UNION ALL SELECT * FROM others)
            WHERE {KNOWN}
            GROUP BY {listed(GROUP)}, what, reason
        )
        GROUP BY {listed(GROUP)}
    )
"""
"""Common table expressions that end with `events_of`: the counts of each GROUP. A copy of an event equals its original
in every column; attempts have nothing else to tell them by. An event counts for the broadcast of its session's hour,
else, for what ends just after it, of the hour before; and for the encoder that the hour's samples name: a session
begins before its metadata say more than flashVer.
"""
