"""Distinct players of a longer time than an hour or a day: the HyperLogLog sketches of its rollups, united.

They are Apache DataSketches', made by Spark. What several estimate together is as good as what one does (ERROR).
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import chain

from analytics import ledger
from analytics.metrics import SKETCH_BITS
from analytics.models import METRIC_VERSION, Grain, Partition
from analytics.rollups import MOST_HOURS, Rollups

ERROR = "a standard deviation of 1.6\u00a0%"
"""Of what is estimated: 1.04 / sqrt(2^SKETCH_BITS)."""

WORDS = f"exact up to some hundred, then estimated, with {ERROR}"

FIELDS = ("start", "unique_players", "players_sketch")

MOST = 5000
"""Sketches that are united at most, of up to 4 KB each: a stream's days of 13 years, a month of 160 applications."""


def distinct(rows: Rollups, since: datetime, until: datetime) -> int | None:
    """How many began to play within since <= hour < until: of what `rows` are of, at whatever grain and time.

    Read are the days that are whole within it and as their hours are now, and besides them hours. None where players
    can't be told apart, where an earlier version left no sketch of them, and where it were more than MOST, or more than
    MOST_HOURS of the lake.
    """
    days = _days(since, until)
    hours = [rows.over(Grain.HOUR, first, end) for first, end in _besides(days, since, until)]
    if sum(len(some.lake.files) for some in hours) > MOST_HOURS:
        return None
    whole = (row for row in rows.over(Grain.DAY, since, until).values(*FIELDS) if row["start"] in days)
    known, sketches = False, []
    for row in chain(whole, *(some.values(*FIELDS) for some in hours)):
        if row["unique_players"] is None:
            continue
        known = True
        if row["unique_players"]:
            sketches.append(bytes(row["players_sketch"] or b""))
        if len(sketches) > MOST:
            return None
    return united(sketches) if known and all(sketches) else None


def united(sketches: Iterable[bytes]) -> int:
    """How many there are in all of them, each once; rounded as Spark does."""
    from datasketches import hll_sketch, hll_union  # Not before it is needed: it loads numpy.

    union = hll_union(SKETCH_BITS)
    for sketch in sketches:
        union.update(hll_sketch.deserialize(sketch))
    return int(union.get_estimate() + 0.5)


def _days(since: datetime, until: datetime) -> set[datetime]:
    first, end = ledger.day_of(since + ledger.DAY - timedelta(microseconds=1)), ledger.day_of(until)
    done = Partition.objects.filter(grain=Grain.DAY, state=Partition.State.DONE, metric_version=METRIC_VERSION)
    known = set(done.filter(start__gte=first, start__lt=end).values_list("start", flat=True))
    return known - {day.start for day in ledger.Days(first, end).pending()} if known else known


def _besides(days: set[datetime], since: datetime, until: datetime) -> list[tuple[datetime, datetime]]:
    """The times between the days."""
    found, first = [], since
    for day in sorted(days):
        if first < day:
            found.append((first, day))
        first = day + ledger.DAY
    return [*found, (first, until)] if first < until else found
