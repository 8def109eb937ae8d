"""Rollups are merged from parts. A part has GROUP and some of a rollup's columns, and counts for what it has.

So hours and days are one union and one grouping: what a column's figures add up to stands here, once for both.
"""

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from analytics.jobs.dimensions import GROUP, PLAYERS_OF
from analytics.jobs.schemas import BITRATES, COUNTS, EVENT_SUMS, EXTREMES, ROLLUPS, SESSION_SUMS, names
from analytics.jobs.sketches import gathered, merged, quantiles

SUMMED = ("sessions", *SESSION_SUMS, *EVENT_SUMS, "unique_players")
MAPS = ("refusals", "end_reasons")


def rollups(*parts: DataFrame) -> DataFrame:
    """Parts to ROLLUPS. Sketches come with their `samples`; a peak comes with `peak_at_us`."""
    together = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)
    tells_players_apart = F.col("dimension").isin([dimension.value for dimension in PLAYERS_OF])
    groups = together.groupBy(*GROUP).agg(
        F.max("stream").alias("stream"),
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in SUMMED),
        *(extreme_of(name) for name in names(EXTREMES) if name != "peak_players"),
        *peak("peak_at_us"),
        *(_added(name).alias(name) for name in MAPS),
        *(gathered(kind) for kind in BITRATES),
    )
    figures = groups.withColumns(
        {
            "unique_players": F.when(tells_players_apart, F.col("unique_players")),
            **{f"{kind}_sketch": merged(kind) for kind in BITRATES},
        }
    )
    derived = [column for kind in BITRATES for column in (_mean(kind), *quantiles(kind))]
    return figures.select("*", *derived).select(*ROLLUPS.fieldNames())


def extreme_of(name: str) -> Column:
    """The greatest of a column of extremes, or the least."""
    return (F.min if name.endswith("_min") else F.max)(name).alias(name)


def peak(time: str) -> list[Column]:
    """The greatest `peak_players` and the first time of it, none if it is 0; the greatest `peak_streams`."""
    # The greatest of (players, -time) is the earliest of the greatest.
    best = F.max(F.struct("peak_players", -F.col(time)))
    players = best["peak_players"]
    return [
        F.coalesce(players, F.lit(0)).alias("peak_players"),
        F.when(players > 0, -best["col2"]).alias("peak_at_us"),
        F.coalesce(F.max("peak_streams"), F.lit(0)).alias("peak_streams"),
    ]


def _mean(kind: str) -> Column:
    """In kbit/s, which are 8 bytes / ms. nullif: a group without elapsed time has none."""
    mean = F.lit(8.0) * F.col(f"{kind}_bytes") / F.nullif("elapsed_ms", F.lit(0))
    return mean.alias(f"{kind}_kbps_mean")


def _added(counts: str) -> Column:
    """Maps of counts to one."""
    total = F.aggregate(
        F.collect_list(counts),
        F.create_map().cast(COUNTS),
        lambda sums, each: F.map_zip_with(
            sums, each, lambda _, one, other: F.coalesce(one, F.lit(0)) + F.coalesce(other, F.lit(0))
        ),
    )
    return F.map_from_entries(F.sort_array(F.map_entries(total)))
