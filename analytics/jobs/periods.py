"""Minutes, hours and days (UTC) of times in microseconds since the epoch, in SQL."""

MINUTE_US = 60_000_000
HOUR_US = 60 * MINUTE_US
DAY_US = 24 * HOUR_US


def start_of(time: str, length_us: int) -> str:
    """The beginning of the period that the time lies in."""
    return f"({time} - {time} % {length_us})"


def text_of(time: str, pattern: str) -> str:
    return f"date_format(timestamp_micros({time}), '{pattern}')"
