"""What happened to sessions, counted: publishes accepted and refused, ends by reason, players that began."""

from pyspark.sql import DataFrame

from analytics.jobs.dimensions import GROUP, PLAYERS_OF, of_each
from analytics.jobs.periods import HOUR_US, start_of
from analytics.jobs.schemas import HAPPENED
from analytics.jobs.sessions import tail_of
from analytics.jobs.sql import listed, named, query, texts

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

OF_BROADCAST = f"{KNOWN} and (dimension != 'broadcast' or broadcast_us is not null)"


def happened(events: DataFrame) -> DataFrame:
    """Events (schemas.EVENTS), copies among them, to those that are counted (schemas.HAPPENED), each once."""
    # A copy equals its original in every column; attempts have nothing else to tell them by.
    return query(
        f"""
        SELECT {listed(HAPPENED.fieldNames())}
        FROM (
            SELECT *, {start_of("at_us", HOUR_US)} AS start_us, CASE {_WHAT} END AS what
            FROM (SELECT DISTINCT * FROM {{events}})
        )
        WHERE what IS NOT NULL
        """,
        events=events,
    )


def with_broadcasts(happened: DataFrame, session_hours: DataFrame, tail: DataFrame) -> DataFrame:
    """Adds `broadcast_us`: of the session's hour, else, for what ends just after it, of the hour before. And calls the
    encoder as the hour's samples do: a session begins before its metadata say more than flashVer.
    """
    return query(
        f"""
        WITH
        known AS (
            SELECT start_us, session, min_by(broadcast_us, hours_ago) AS broadcast_us,
                min_by(called, hours_ago) AS called
            FROM (
                SELECT start_us, session, broadcast_us, encoder AS called, 0 AS hours_ago FROM {{session_hours}}
                UNION ALL SELECT start_us + {HOUR_US}, session, broadcast_us, NULL, 1 FROM {{former}}
            )
            GROUP BY start_us, session
        )
        SELECT * EXCEPT (encoder, called), coalesce(called, encoder) AS encoder
        FROM {{happened}} LEFT JOIN known USING (start_us, session)
        """,
        happened=happened,
        session_hours=session_hours,
        former=tail_of(session_hours).unionByName(tail),
    )


def counted(happened: DataFrame) -> DataFrame:
    """HAPPENED with `broadcast_us` to the counts of each GROUP."""
    publishing = of_each(happened, only=f"what IN ('accepted', 'ended') AND {OF_BROADCAST}")
    others = of_each(happened, PLAYERS_OF, only=f"what IN ('refused', 'played') AND {KNOWN}")
    group = listed(GROUP)
    return query(
        f"""
        SELECT {group}, {_COUNTED}
        FROM (
            SELECT {group}, what, reason, count(*) AS times, max(stream) AS stream
            FROM {{each}}
            GROUP BY {group}, what, reason
        )
        GROUP BY {group}
        """,
        each=publishing.unionByName(others),
    )


def players(happened: DataFrame) -> DataFrame:
    """HAPPENED to the `unique_players` of each GROUP, for which the salted hash of their address stands."""
    group = listed(GROUP)
    return query(
        f"SELECT {group}, count(DISTINCT address_hash) AS unique_players FROM {{began}} GROUP BY {group}",
        began=of_each(happened, PLAYERS_OF, only=f"what = 'played' AND {KNOWN}"),
    )


def _sum(condition: str) -> str:
    return f"sum(if({condition}, times, 0))"


def _by_reason(condition: str) -> str:
    return f"map_from_entries(sort_array(collect_list(CASE WHEN {condition} THEN struct(reason, times) END)))"


_WHAT = " ".join(f"WHEN {condition} THEN '{what}'" for what, condition in KINDS.items())
_COUNTED = named(
    {
        "stream": "max(stream)",
        "accepted": _sum("what = 'accepted'"),
        "refused": _sum("what = 'refused'"),
        "plays": _sum("what = 'played'"),
        "ends": _sum("what = 'ended'"),
        "unplanned_ends": _sum(f"what = 'ended' AND reason NOT IN {texts(PLANNED)}"),
        "refusals": _by_reason("what = 'refused'"),
        "end_reasons": _by_reason("what = 'ended'"),
    }
)
