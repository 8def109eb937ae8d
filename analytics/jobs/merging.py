"""Rollups are merged from parts. A part has GROUP and some of a rollup's columns, and counts for what it has.

So hours and days are one union and one grouping: what a column's figures add up to stands here, once for both.
"""

from functools import reduce

from pyspark.sql import DataFrame

from analytics.jobs.dimensions import GROUP, PLAYERS_OF
from analytics.jobs.schemas import BITRATES, COUNTS, EVENT_SUMS, EXTREMES, ROLLUPS, SESSION_SUMS, names
from analytics.jobs.sketches import gathered, merged, quantiles
from analytics.jobs.sql import listed, named, query, texts

SUMMED = ("sessions", *SESSION_SUMS, *EVENT_SUMS, "unique_players")
MAPS = ("refusals", "end_reasons")


def rollups(*parts: DataFrame) -> DataFrame:
    """Parts to ROLLUPS. Sketches come with their `samples`; a peak comes with `peak_at_us`."""
    together = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)
    return query(_ROLLUPS, parts=together)


def extremes(but: str = "") -> dict[str, str]:
    """The greatest of each column of extremes, or the least; without one of them."""
    return {name: f"{'min' if name.endswith('_min') else 'max'}({name})" for name in names(EXTREMES) if name != but}


def peak(time: str) -> dict[str, str]:
    """The greatest `peak_players` and the first time of it, none if it is 0; the greatest `peak_streams`."""
    # The greatest of (players, -time) is the earliest of the greatest.
    best = f"max(named_struct('players', peak_players, 'before', -{time}))"
    return {
        "peak_players": f"coalesce({best}.players, 0)",
        "peak_at_us": f"CASE WHEN {best}.players > 0 THEN -{best}.before END",
        "peak_streams": "coalesce(max(peak_streams), 0)",
    }


def _mean(kind: str) -> str:
    """In kbit/s, which are 8 bytes / ms. nullif: a group without elapsed time has none."""
    return f"8.0D * {kind}_bytes / nullif(elapsed_ms, 0)"


def _added(counts: str) -> str:
    """Maps of counts to one."""
    total = f"""
        aggregate(collect_list({counts}), cast(map() AS {COUNTS.simpleString()}), (sums, more) ->
            map_zip_with(sums, more, (_, one, other) -> coalesce(one, 0) + coalesce(other, 0)))
    """
    return f"map_from_entries(sort_array(map_entries({total})))"


def _rollups() -> str:
    """Grouped, then the sketches merged, then what follows from them."""
    figures = {
        "stream": "max(stream)",
        **{name: f"coalesce(sum({name}), 0)" for name in SUMMED},
        **extremes(but="peak_players"),
        **peak("peak_at_us"),
        **{name: _added(name) for name in MAPS},
        **{f"{kind}_sketch": gathered(kind) for kind in BITRATES},
    }
    tells_players_apart = f"dimension IN {texts(dimension.value for dimension in PLAYERS_OF)}"
    changed = {
        "unique_players": f"CASE WHEN {tells_players_apart} THEN unique_players END",
        **{f"{kind}_sketch": merged(kind) for kind in BITRATES},
    }
    derived = {
        name: expression
        for kind in BITRATES
        for name, expression in {f"{kind}_kbps_mean": _mean(kind), **quantiles(kind)}.items()
    }
    return f"""
        SELECT {listed(ROLLUPS.fieldNames())}
        FROM (
            SELECT *, {named(derived)}
            FROM (
                SELECT * EXCEPT ({listed(changed)}), {named(changed)}
                FROM (SELECT {listed(GROUP)}, {named(figures)} FROM {{parts}} GROUP BY {listed(GROUP)})
            )
        )
    """


_ROLLUPS = _rollups()
