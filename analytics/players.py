"""Distinct players of a longer time than an hour or a day: the HyperLogLog sketches of its rollups, united.

They are Apache DataSketches', made by Spark. What several estimate together is as good as what one does (ERROR).
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db.models import Q, QuerySet

from analytics import ledger
from analytics.metrics import SKETCH_BITS
from analytics.models import METRIC_VERSION, Grain, Partition, Rollup

ERROR = "a standard deviation of 1.6\u00a0%"
"""Of what is estimated: 1.04 / sqrt(2^SKETCH_BITS)."""

WORDS = f"exact up to some hundred, then estimated, with {ERROR}"

MOST = 5000
"""Sketches that are united at most, of up to 4 KB each: a stream's days of 13 years, a month of 160 applications."""

MANY = 500
"""That are in memory at once."""


def distinct(rows: QuerySet[Rollup], since: datetime, until: datetime) -> int | None:
    """How many began to play within since <= hour < until: of `rows`, which are of whatever grain and time.

    Read are the days that are whole within it and as their hours are now, and besides them hours. None where players
    can't be told apart, where an earlier version left no sketch of them, and where it were more than MOST.
    """
    days = _days(since, until)
    parts = Q(grain=Grain.DAY, start__in=days)
    for first, end in _besides(days, since, until):
        parts |= Q(grain=Grain.HOUR, start__gte=first, start__lt=end)
    found = rows.filter(parts, unique_players__isnull=False).order_by()
    some = found.filter(unique_players__gt=0)
    if not found.exists() or some.filter(players_sketch=b"").exists() or some[: MOST + 1].count() > MOST:
        return None
    return united(map(bytes, some.values_list("players_sketch", flat=True).iterator(MANY)))


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
