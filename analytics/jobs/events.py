"""What happened to sessions, counted: publishes accepted and refused, ends by reason, players that began."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from analytics.jobs.dimensions import GROUP, PLAYERS_OF, of_each
from analytics.jobs.periods import HOUR_US, start_of
from analytics.jobs.schemas import HAPPENED
from analytics.jobs.sessions import tail_of

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
    what = F.coalesce(*(F.when(F.expr(condition), F.lit(kind)) for kind, condition in KINDS.items()))
    # A copy equals its original in every column; attempts have nothing else to tell them by.
    once = events.distinct().withColumns({"what": what, "start_us": start_of("at_us", HOUR_US)})
    return once.where("what is not null").select(*HAPPENED.fieldNames())


def with_broadcasts(happened: DataFrame, session_hours: DataFrame, tail: DataFrame) -> DataFrame:
    """Adds `broadcast_us`: of the session's hour, else, for what ends just after it, of the hour before."""
    own = session_hours.select("start_us", "session", "broadcast_us", F.lit(0).alias("hours_ago"))
    former = tail_of(session_hours).unionByName(tail).withColumn("start_us", F.col("start_us") + F.lit(HOUR_US))
    known = (
        own.unionByName(former.select("start_us", "session", "broadcast_us", F.lit(1).alias("hours_ago")))
        .groupBy("start_us", "session")
        .agg(F.min_by("broadcast_us", "hours_ago").alias("broadcast_us"))
    )
    return happened.join(known, ["start_us", "session"], "left")


def counted(happened: DataFrame) -> DataFrame:
    """HAPPENED with `broadcast_us` to the counts of each GROUP."""
    publishing = of_each(happened.where("what in ('accepted', 'ended')"), only=OF_BROADCAST)
    others = of_each(happened.where("what in ('refused', 'played')"), PLAYERS_OF, only=KNOWN)
    return (
        publishing.unionByName(others)
        .groupBy(*GROUP, "what", "reason")
        .agg(F.count("*").alias("count"), F.max("stream").alias("stream"))
        .groupBy(*GROUP)
        .agg(
            F.max("stream").alias("stream"),
            _sum("what = 'accepted'").alias("accepted"),
            _sum("what = 'refused'").alias("refused"),
            _sum("what = 'played'").alias("plays"),
            _sum("what = 'ended'").alias("ends"),
            _sum(f"what = 'ended' and reason not in {PLANNED}").alias("unplanned_ends"),
            _by_reason("what = 'refused'").alias("refusals"),
            _by_reason("what = 'ended'").alias("end_reasons"),
        )
    )


def players(happened: DataFrame) -> DataFrame:
    """HAPPENED to the `unique_players` of each GROUP, for which the salted hash of their address stands."""
    began = of_each(happened.where("what = 'played'"), PLAYERS_OF, only=KNOWN)
    return began.groupBy(*GROUP).agg(F.count_distinct("address_hash").alias("unique_players"))


def _sum(condition: str) -> Column:
    return F.sum(F.when(F.expr(condition), F.col("count")).otherwise(F.lit(0)))


def _by_reason(condition: str) -> Column:
    entries = F.collect_list(F.when(F.expr(condition), F.struct("reason", "count")))
    return F.map_from_entries(F.sort_array(entries))
