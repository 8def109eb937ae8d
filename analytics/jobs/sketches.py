"""Sketches of bitrates within Spark: the same as analytics.sketches makes. Why not Spark's own: docs/adr/0012."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from analytics.jobs.periods import HOUR_US, start_of
from analytics.jobs.schemas import BITRATES, PERCENTILES, SKETCH, SKETCHES
from analytics.sketches import POINTS


def sketches(samples: DataFrame) -> DataFrame:
    """Samples, each once, to SKETCHES."""
    values = samples.groupBy(start_of("at_us", HOUR_US).alias("start_us"), "session").agg(
        *(F.sort_array(F.collect_list(F.col(f"{kind}_kbps").cast("float"))).alias(kind) for kind in BITRATES)
    )
    sketched = (_points(F.col(kind)).alias(f"{kind}_sketch") for kind in BITRATES)
    return values.select("start_us", "session", *sketched).select(*SKETCHES.fieldNames())


def gathered(kind: str) -> Column:
    """Of a group of rows, which have `samples` and a sketch of as many values, or none: what `merged` makes one."""
    part = F.struct("samples", F.col(f"{kind}_sketch").alias("points"))
    return F.collect_list(F.when(F.col(f"{kind}_sketch").isNotNull(), part)).alias(f"{kind}_sketch")


def merged(kind: str) -> Column:
    """The sketch of a group of rows, by what is `gathered` of it and its `samples`."""
    parts = F.col(f"{kind}_sketch")
    one = F.get(parts, F.lit(0))["points"]
    return F.when(F.size(parts) == 1, one).otherwise(_merge_several(parts)).alias(f"{kind}_sketch")


def quantiles(kind: str) -> list[Column]:
    """The bitrate's quantiles, from a row's sketch and `samples`; null without samples."""
    points, count = F.col(f"{kind}_sketch"), F.nullif("samples", F.lit(0))
    found = []
    for figure, percent in PERCENTILES.items():
        # The smallest value that so many of them don't exceed, and the first point that stands for as many.
        wanted = F.greatest(_div(count * percent + 99, F.lit(100)), F.lit(1))
        point = _div(wanted * F.size(points) + count - 1, count)
        found.append(F.get(points, (point - 1).cast("int")).cast("double").alias(f"{kind}_kbps_{figure}"))
    return found


def _points(values: Column) -> Column:
    """The sketch of sorted values."""
    count, size = F.size(values).cast("bigint"), F.lit(POINTS)
    middles = F.transform(
        F.sequence(F.lit(0), F.lit(POINTS - 1)),
        lambda i: F.get(values, _div((2 * i + 1) * count, 2 * size).cast("int")),
    )
    return F.when(count <= size, values).otherwise(middles)


def _merge_several(parts: Column) -> Column:
    """Each point weighs as much as the values that it stands for. In their order, the weights add up to ranks."""
    weighed = F.flatten(F.transform(parts, _weighed))
    total = F.col("samples")
    size = F.least(total, F.lit(POINTS))

    def passed(state: Column, point: Column) -> Column:
        """Takes the point for each point of the sketch whose rank its weight passes."""
        rank = state["rank"] + point["weight"]
        # As many have floor((2 i + 1) total / (2 size)) < rank.
        more = _div(2 * size * rank + total - 1, 2 * total).cast("int") - F.size(state["points"])
        longer = F.concat(state["points"], F.array_repeat(point["value"], more))
        return F.struct(rank.alias("rank"), F.when(more > 0, longer).otherwise(state["points"]).alias("points"))

    empty = F.struct(F.lit(0).cast("bigint").alias("rank"), F.array().cast(SKETCH).alias("points"))
    return F.aggregate(F.sort_array(weighed), empty, passed, lambda state: state["points"])


def _weighed(part: Column) -> Column:
    count, size = part["samples"], F.size(part["points"])
    return F.transform(
        part["points"],
        lambda value, i: F.struct(
            value.alias("value"), (_div((i + 1) * count, size) - _div(i * count, size)).alias("weight")
        ),
    )


def _div(dividend: Column, divisor: Column) -> Column:
    """Whole numbers', rounded down."""
    return F.call_function("div", dividend, divisor)
