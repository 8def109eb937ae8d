"""What hours and days of rollups have in common: bitrates from histograms, peaks, and the columns in their order."""

from analytics.histograms import DECIMALS, RATIO, ZERO
from analytics.jobs.dimensions import PLAYERS_OF
from analytics.jobs.minutes import MINUTE_US
from analytics.jobs.schemas import COUNTS, HISTOGRAM, ROLLUPS
from analytics.jobs.sql import named, texts
from analytics.metrics import BITRATES, PERCENTILES


def rates(counts: str) -> str:
    """Common table expressions that end with `rates`: each group's histograms and percentiles of bitrates. `counts`: a
    table of `group_id`, `kind`, `bucket` and `count`.
    """
    found: dict[str, str] = {}
    for kind in BITRATES:
        found[f"{kind}_histogram"] = (
            f"sort_array(collect_list(if(kind = '{kind}', named_struct('bucket', bucket, 'count', count), NULL)))"
        )
        for figure, percent in PERCENTILES.items():
            reaches = f"kind = '{kind}' AND 100 * upto >= {percent} * total"
            found[f"{kind}_{figure}_bucket"] = f"min(if({reaches}, bucket, NULL))"
    return f"""
        summed AS (
            SELECT group_id, kind, bucket, sum(count) AS count FROM {counts} GROUP BY group_id, kind, bucket
        ),
        ranked AS (
            SELECT *, sum(count) OVER (PARTITION BY group_id, kind ORDER BY bucket) AS upto,
                sum(count) OVER (PARTITION BY group_id, kind) AS total
            FROM summed
        ),
        rates AS (SELECT group_id, {named(found)} FROM ranked GROUP BY group_id)
    """


PEAK_MINUTES = 10_000
"""More than a day has."""


def peak(time: str, start: str) -> dict[str, str]:
    """The greatest `peak_players` and the first minute (`time`) of it, none if it is 0; the greatest `peak_streams`."""
    # As one number, of which the greatest is the earliest of the greatest: Spark would sort to compare pairs.
    minute = f"coalesce(({time} - {start}) div {MINUTE_US}, 0)"
    best = f"max(peak_players * {PEAK_MINUTES} + {PEAK_MINUTES - 1} - {minute})"
    at = f"max({start}) + ({PEAK_MINUTES - 1} - {best} % {PEAK_MINUTES}) * {MINUTE_US}"
    return {
        "peak_players": f"coalesce({best} div {PEAK_MINUTES}, 0)",
        "peak_at_us": f"CASE WHEN {best} >= {PEAK_MINUTES} THEN {at} END",
        "peak_streams": "coalesce(max(peak_streams), 0)",
    }


def added(counts: str) -> str:
    """Maps of counts to one."""
    total = f"""
        aggregate(collect_list({counts}), cast(map() AS {COUNTS}), (sums, more) ->
            map_zip_with(sums, more, (_, one, other) -> coalesce(one, 0) + coalesce(other, 0)))
    """
    return f"map_from_entries(sort_array(map_entries({total})))"


def columns(missing: dict[str, str]) -> str:
    """ROLLUPS, in their order, of a row that has their sums and `rates`. `missing`: {column: expression} in place of
    what the row has under that name.
    """
    derived = {f"{kind}_kbps_mean": _mean(kind) for kind in BITRATES}
    derived |= {f"{kind}_kbps_{figure}": _percentile(kind, figure) for kind in BITRATES for figure in PERCENTILES}
    derived |= {f"{kind}_histogram": f"coalesce({kind}_histogram, cast(array() AS {HISTOGRAM}))" for kind in BITRATES}
    tells_apart = f"dimension IN {texts(dimension.value for dimension in PLAYERS_OF)}"
    derived |= {
        "unique_players": f"if({tells_apart}, coalesce(hll_sketch_estimate(players_sketch), 0), NULL)",
        "players_sketch": f"if({tells_apart}, players_sketch, NULL)",
    }
    return named({name: {**derived, **missing}.get(name, name) for name in ROLLUPS})


def _mean(kind: str) -> str:
    """In kbit/s, which are 8 bytes / ms. nullif: a group without elapsed time has none."""
    return f"8.0D * {kind}_bytes / nullif(elapsed_ms, 0)"


def _percentile(kind: str, figure: str) -> str:
    """What its bucket stands for, as far as there were such values."""
    bucket = f"{kind}_{figure}_bucket"
    value = f"if({bucket} = {ZERO}, 0D, round(2 * power({RATIO}D, {bucket}) / {RATIO + 1}D, {DECIMALS}))"
    return f"if({bucket} IS NULL, NULL, greatest({kind}_kbps_min, least({kind}_kbps_max, {value})))"
