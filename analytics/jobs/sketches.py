"""Sketches of bitrates within Spark: the same as analytics.sketches makes. Why not Spark's own: docs/adr/0012.

Whole numbers are divided by `div`, which rounds to zero: of what is not negative, down.
"""

from pyspark.sql import DataFrame

from analytics.jobs.periods import HOUR_US, start_of
from analytics.jobs.schemas import BITRATES, PERCENTILES, SKETCHES
from analytics.jobs.sql import listed, named, query
from analytics.sketches import POINTS

WEIGHED = """
    flatten(transform({parts}, part -> transform(part.points, (value, i) -> named_struct(
        'value', value,
        'weight', ((i + 1) * part.samples) div size(part.points) - (i * part.samples) div size(part.points)
    ))))
"""
"""Each point with as many values as it stands for."""

TAKEN = "cast((2 * {size} * (state.rank + point.weight) + samples - 1) div (2 * samples) AS int) - size(state.points)"
"""How often a point is in the sketch: for each of its points whose rank the weight passes. As many have
floor((2 i + 1) samples / (2 size)) < rank.
"""

MERGED = """
    aggregate(
        sort_array({weighed}),
        named_struct('rank', 0L, 'points', cast(array() AS array<float>)),
        (state, point) -> named_struct(
            'rank', state.rank + point.weight,
            'points', if({taken} > 0, concat(state.points, array_repeat(point.value, {taken})), state.points)
        ),
        state -> state.points
    )
"""
"""In their order, the weights add up to ranks."""


def sketches(samples: DataFrame) -> DataFrame:
    """Samples, each once, to SKETCHES."""
    start = start_of("at_us", HOUR_US)
    values = {kind: f"sort_array(collect_list(cast({kind}_kbps AS float)))" for kind in BITRATES}
    found = {f"{kind}_sketch": _points(kind) for kind in BITRATES}
    return query(
        f"""
        SELECT {listed(SKETCHES.fieldNames())}
        FROM (
            SELECT start_us, session, {named(found)}
            FROM (SELECT {start} AS start_us, session, {named(values)} FROM {{samples}} GROUP BY {start}, session)
        )
        """,
        samples=samples,
    )


def gathered(kind: str) -> str:
    """Of a group of rows, which have `samples` and a sketch of as many values, or none: what `merged` makes one."""
    sketch = f"{kind}_sketch"
    return f"collect_list(CASE WHEN {sketch} IS NOT NULL THEN named_struct('samples', samples, 'points', {sketch}) END)"


def merged(kind: str) -> str:
    """The sketch of a group of rows, by its `samples` and what is `gathered` of it, which has the sketch's name."""
    parts = f"{kind}_sketch"
    several = MERGED.format(weighed=WEIGHED.format(parts=parts), taken=TAKEN.format(size=f"least(samples, {POINTS}L)"))
    return f"if(size({parts}) = 1, get({parts}, 0).points, {several})"


def quantiles(kind: str) -> dict[str, str]:
    """The bitrate's quantiles, from a row's sketch and `samples`; null without samples."""
    points, count = f"{kind}_sketch", "nullif(samples, 0)"
    found = {}
    for figure, percent in PERCENTILES.items():
        # The smallest value that so many of them don't exceed, and the first point that stands for as many.
        wanted = f"greatest(({count} * {percent} + 99) div 100, 1)"
        point = f"({wanted} * size({points}) + {count} - 1) div {count}"
        found[f"{kind}_kbps_{figure}"] = f"cast(get({points}, cast({point} - 1 AS int)) AS double)"
    return found


def _points(values: str) -> str:
    """The sketch of sorted values."""
    count = f"cast(size({values}) AS bigint)"
    middle = f"get({values}, cast(((2 * i + 1) * {count}) div {2 * POINTS} AS int))"
    return f"if({count} <= {POINTS}, {values}, transform(sequence(0, {POINTS - 1}), i -> {middle}))"
