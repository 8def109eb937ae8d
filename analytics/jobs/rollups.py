"""What the hour's and the day's job share: the figures that follow from a group's sums and sketches."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from analytics.jobs.schemas import BITRATES, QUANTILES, ROLLUPS

HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US

SKETCH_K = 400
"""The sketch's size, at 6 KB a stream and hour. A quantile's rank is off by at most 0.7 % in 99 of 100 cases, so that
even among millions of rows none is off by 2 %; with 200, in one of ten thousand it is."""


def start_of(column: str, length_us: int) -> Column:
    """The beginning of the period (UTC) that a time in microseconds lies in."""
    time = F.col(column)
    return time - time % F.lit(length_us)


def finish(merged: DataFrame) -> DataFrame:
    """Adds to merged sums, extremes and sketches what is derived from them, in the declared order."""
    derived = [F.size("session_ids").cast("bigint").alias("sessions")]
    for kind in BITRATES:
        # kbit/s = 8 bytes / ms. nullif: a group without elapsed time has no mean.
        mean = F.lit(8.0) * F.col(f"{kind}_bytes") / F.nullif(F.col("elapsed_ms"), F.lit(0))
        derived.append(mean.alias(f"{kind}_kbps_mean"))
        derived += [
            F.kll_sketch_get_quantile_double(f"{kind}_sketch", F.lit(rank)).alias(f"{kind}_kbps_{figure}")
            for figure, rank in QUANTILES.items()
        ]
    return merged.select("*", *derived).select(*ROLLUPS.fieldNames())


def start_timestamp(pattern: str) -> Column:
    """The period's beginning (UTC) as text, for the partition folders."""
    return F.date_format(F.timestamp_micros("start_us"), pattern)
