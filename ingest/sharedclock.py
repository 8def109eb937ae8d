"""The time that all nodes and processes share: the database's. By it goes what they compare with one another: when a
node was seen, until when a lease lives, since when a publisher is silent.

Each machine's own clock may be an hour off for a while, as before its time service has set it, or after a virtual
machine was paused. PostgreSQL has one clock for all. Processes that share an SQLite file are on one machine, and so is
theirs. Should that one leap, nobody is taken for dead: it shows as a break of `Reach`, and all are heard anew.
"""

from datetime import UTC, datetime, timedelta

from django.db import connection
from django.utils import timezone

from ingest import clock

_ahead_s: float | None = None
"""Of the time that passes, as it was last asked; None: the machine's clock is the shared one, or it never was."""


def look() -> datetime:
    """Asks the database, which may take its time and fail."""
    global _ahead_s
    if connection.vendor != "postgresql":
        return timezone.now()
    before = clock.passing()
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        at: datetime = cursor.fetchone()[0]
    after = clock.passing()
    _ahead_s = at.timestamp() - (before + after) / 2
    return utc_now()


def utc_now() -> datetime:
    """By the last look, which a node has each second, and without one by the machine's clock: anybody may ask."""
    return timezone.now() if _ahead_s is None else datetime.fromtimestamp(clock.passing() + _ahead_s, UTC)


def of(at: float) -> datetime:
    """The shared time of what was `at` by this process's own clock (ingest.clock), a short while ago."""
    return utc_now() - timedelta(seconds=clock.now() - at)
