"""Minutes, hours and days (UTC) of times in microseconds since the epoch."""

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

MINUTE_US = 60_000_000
HOUR_US = 60 * MINUTE_US
DAY_US = 24 * HOUR_US


def start_of(column: str, length_us: int) -> Column:
    """The beginning of the period that the time lies in."""
    time = F.col(column)
    return time - time % F.lit(length_us)


def text_of(column: str, pattern: str) -> Column:
    return F.date_format(F.timestamp_micros(column), pattern)
