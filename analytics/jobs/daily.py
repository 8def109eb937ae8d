"""The day's rollup: one row for each stream and day (UTC), merged from its hours."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from analytics.jobs.rollups import DAY_US, finish, start_of
from analytics.jobs.schemas import BITRATES, SUMS


def daily(hours: DataFrame) -> DataFrame:
    """Hour rollups to day rollups (both schemas.ROLLUPS)."""
    merged = hours.groupBy(start_of("start_us", DAY_US).alias("day_us"), "app", "name").agg(
        F.max("stream").alias("stream"),
        F.array_distinct(F.flatten(F.collect_list("session_ids"))).alias("session_ids"),
        *(F.sum(column).alias(column) for column in SUMS),
        F.max("peak_players").alias("peak_players"),
        F.max("keyframe_interval_max").alias("keyframe_interval_max"),
        *(F.min(f"{kind}_kbps_min").alias(f"{kind}_kbps_min") for kind in BITRATES),
        *(F.max(f"{kind}_kbps_max").alias(f"{kind}_kbps_max") for kind in BITRATES),
        *(F.kll_merge_agg_double(f"{kind}_sketch").alias(f"{kind}_sketch") for kind in BITRATES),
    )
    return finish(merged.withColumnRenamed("day_us", "start_us"))
