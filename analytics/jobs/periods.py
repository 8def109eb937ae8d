"""Minutes, hours and days (UTC) of times in microseconds since the epoch, in SQL."""


def start_of(time: str, length_us: int) -> str:
    """The beginning of the period that the time lies in."""
    return f"({time} - {time} % {length_us})"
