"""Hours and days of one dimension, to read: the same from the database and from the lake. Distinct players of any time.

Days are in the database, and hours of the dimensions of HOURS_IN_DATABASE; of the others an hour's rows are in the lake
alone. The ledger has which (`Partition.lake_only`), hour by hour, from the transaction that loaded the hour. By it each
hour is read from one place. So whatever the setting was and is, no row counts twice, and an hour that is computed anew
moves with it.

Distinct players of longer times are the HyperLogLog sketches (Apache DataSketches', made by Spark) of rollups, united:
what several estimate together is as good as what one does (ERROR)."""

import heapq
import os
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime, timedelta
from functools import cached_property
from itertools import chain, groupby, islice
from operator import itemgetter
from typing import Any

from django.conf import settings
from django.db.models import Q, QuerySet

from analytics import ledger
from analytics.figures import (
    MANY,
    NO_QUANTILES,
    QUANTILE_FIELDS,
    Figures,
    QuantilePart,
    Quantiles,
    Sums,
    added_sums,
    combined_parts,
    merged_quantiles,
    sums_of,
)
from analytics.metrics import DISTINCT_PLAYERS_ERROR, SKETCH_BITS
from analytics.models import FIGURES, IDENTITY, METRIC_VERSION, Dimension, Grain, Partition, Rollup, within
from analytics.tables import COUNTERS, HOUR, ROWS_AT_ONCE, HourFile, Key, LakeRollups, RollupFilter, figures_file

MOST_HOURS = 336
"""Hours' files that a page or an answer of the API reads: two weeks. It takes some 5 ms each."""

MOST_PARTS = 64
"""Histograms of one group that are in memory before they are made one."""

UNPACKED = [*IDENTITY, *FIGURES, "metric_version"]

DIMENSION_WORDS = {
    Dimension.STREAM: "streams",
    Dimension.KEY: "keys",
    Dimension.APP: "applications",
    Dimension.ENCODER: "encoders",
    Dimension.NODE: "nodes",
    Dimension.BROADCAST: "broadcasts",
}


def hours_in_lake(dimension: Dimension, since: datetime | None, until: datetime | None) -> QuerySet[Partition]:
    """Those of a time whose rows of the dimension are in the lake alone."""
    return Partition.objects.filter(within(since, until), grain=Grain.HOUR, lake_only__contains=dimension)


class Rollups:
    """Of a dimension and a time: all, or an application's, a stream's, or those of some values."""

    def __init__(
        self,
        dimension: Dimension,
        grain: Grain,
        since: datetime | None = None,
        until: datetime | None = None,
        *,
        app: str | None = None,
        name: str | None = None,
        values: Collection[str] | None = None,
    ) -> None:
        self.wanted = RollupFilter(dimension, app, name, None if values is None else frozenset(values))
        self._time = grain, since, until

    def over(self, grain: Grain, since: datetime, until: datetime) -> "Rollups":
        wanted = self.wanted
        return Rollups(wanted.dimension, grain, since, until, app=wanted.app, name=wanted.name, values=wanted.values)

    @cached_property
    def lake(self) -> LakeRollups:
        grain, since, until = self._time
        rollups = LakeRollups(self.wanted, [])
        if grain == Grain.DAY:
            return rollups
        hours = hours_in_lake(self.wanted.dimension, since, until).order_by("start")
        files = []
        for start, version, rows in hours.values_list("start", "metric_version", "rows_written"):
            version = version or METRIC_VERSION
            path = figures_file(settings.LAKE_DIR, HOUR, start, version)
            if os.access(path, os.R_OK):
                files.append(HourFile(start, path, version))
            elif rows:  # Without rows there is no file.
                rollups.unread.add(start)
        rollups.files = files
        return rollups

    @cached_property
    def database(self) -> QuerySet[Rollup]:
        grain, since, until = self._time
        rows = Rollup.objects.filter(within(since, until), grain=grain, **self.wanted.lookups())
        elsewhere = [*(file.start for file in self.lake.files), *self.lake.unread]
        return (rows.exclude(start__in=elsewhere) if elsewhere else rows).order_by()

    @property
    def lacking(self) -> str:
        """A sentence on the hours that could not be read; "" without any."""
        if not (count := len(self.lake.unread)):
            return ""
        words = DIMENSION_WORDS[self.wanted.dimension]
        hours = f"{count:,} hours of {words} are" if count > 1 else f"One hour of {words} is"
        return f"{hours} kept in the lake, where this process can't read: their figures are missing here."

    # Rows ------------------------------------------------------------

    def values(self, *fields: str, newest_first: bool = False) -> Iterator[dict[str, Any]]:
        """In the order of time, application, name and value. `fields` have to have `start`."""
        order = "-start" if newest_first else "start"
        rows = self.database.order_by(order, "app", "name", "value").values(*fields).iterator(ROWS_AT_ONCE)
        others = self.lake.values(fields, newest_first=newest_first)
        yield from heapq.merge(rows, others, key=itemgetter("start"), reverse=newest_first)

    def rows(self, *, newest_first: bool = False) -> Iterator[Rollup]:
        """Without what their percentiles are merged from."""
        return (Rollup(**values) for values in self.values(*UNPACKED, newest_first=newest_first))

    def page(self, offset: int, limit: int) -> list[Rollup]:
        """So many of these, the newest first, from one on."""
        if self.lake.files:
            return list(islice(self.rows(newest_first=True), offset, offset + limit))
        rows = self.database.order_by("-start", "app", "name", "value").values(*UNPACKED)
        return [Rollup(**values) for values in rows[offset : offset + limit]]

    def count(self) -> int:
        return self.database.count() + self.lake.count()

    # Sums ------------------------------------------------------------

    def sums(self, *keys: str, longest_live: int | None = None) -> dict[Key, Sums]:
        """What each group's rows add up to, by the keys' values. `longest_live`: of so many groups at most."""
        if not self.lake.files:
            return sums_of(self.database, *keys, longest_live=longest_live)
        totals = sums_of(self.database, *keys)
        for key, more in self.lake.sums(*keys).items():
            totals[key] = added_sums(totals[key], more) if key in totals else more
        ranked = sorted(totals.items(), key=lambda item: (-(item[1]["live_ms"] or 0), item[0]))
        return dict(ranked[:longest_live])

    def quantiles(self, *keys: str) -> Iterator[tuple[Key, Quantiles]]:
        if not self.lake.files:
            rows = (
                self.database.filter(samples__gt=0).order_by(*keys).values_list(*keys, *QUANTILE_FIELDS).iterator(MANY)
            )
            for key, parts in groupby(rows, key=lambda row: row[: len(keys)]):
                yield key, merged_quantiles(row[len(keys) :] for row in parts)
            return
        for key, found in self.parts(*keys).items():
            yield key, merged_quantiles(found)

    def parts(self, *keys: str) -> dict[Key, list[QuantilePart]]:
        """What these are merged from."""
        groups: dict[Key, list[QuantilePart]] = defaultdict(list)
        rows = self.database.filter(samples__gt=0).values_list(*keys, *QUANTILE_FIELDS)
        of_database = ((row[: len(keys)], row[len(keys) :]) for row in rows.iterator(MANY))
        for key, part in chain(of_database, self.lake.measured(*keys)):
            if len(groups[key]) == MOST_PARTS:
                groups[key] = [combined_parts(groups[key])]
            groups[key].append(part)
        return groups

    def counters(self, *keys: str) -> dict[Key, dict[str, Counter[str]]]:
        """Of each group in which something was refused or ended: {refusals and end_reasons: {reason: how many}}."""
        by_key: dict[Key, dict[str, Counter[str]]] = defaultdict(lambda: {name: Counter() for name in COUNTERS})
        rows = self.database.filter(Q(refused__gt=0) | Q(ends__gt=0)).values(*keys, *COUNTERS)
        for row in rows.iterator(MANY):
            for name in COUNTERS:
                by_key[tuple(row[key] for key in keys)][name].update(row[name])
        for key, counts in self.lake.counted(*keys):
            for name in COUNTERS:
                by_key[key][name].update(counts[name])
        return dict(by_key)

    def figures(self) -> Figures:
        """Of all the rows, which are of one thing."""
        peaks = [self.database.filter(peak_at__isnull=False).order_by("-peak_players", "start").values(*PEAK).first()]
        peaks += [row for row in self.lake.values(PEAK) if row["peak_at"]]
        best = max(filter(None, peaks), key=lambda row: (row["peak_players"], -row["start"].timestamp()), default=None)
        further = {**self.counters().get((), {}), "peak_at": best and best["peak_at"]}
        return Figures.of_sums(self.sums()[()] | further, dict(self.quantiles()).get((), NO_QUANTILES))


PEAK = ("start", "peak_players", "peak_at")


DISTINCT_PLAYERS_WORDS = f"exact up to some hundred, then estimated, with {DISTINCT_PLAYERS_ERROR}"

SKETCH_FIELDS = ("start", "unique_players", "players_sketch")

MOST_SKETCHES = 5000
"""Sketches that are united at most, of up to 4 KB each: a stream's days of 13 years, a month of 160 applications."""


def distinct_players(rows: Rollups, since: datetime, until: datetime) -> int | None:
    """How many began to play within since <= hour < until: of what `rows` are of, at whatever grain and time.

    Read are the days that are whole within it and as their hours are now, and besides them hours. None where players
    can't be told apart, where an earlier version left no sketch of them, and where it were more than MOST, or more than
    MOST_HOURS of the lake.
    """
    days = _whole_days(since, until)
    hours = [rows.over(Grain.HOUR, first, end) for first, end in _besides(days, since, until)]
    if sum(len(some.lake.files) for some in hours) > MOST_HOURS:
        return None
    whole = (row for row in rows.over(Grain.DAY, since, until).values(*SKETCH_FIELDS) if row["start"] in days)
    known, sketches = False, []
    for row in chain(whole, *(some.values(*SKETCH_FIELDS) for some in hours)):
        if row["unique_players"] is None:
            continue
        known = True
        if row["unique_players"]:
            sketches.append(bytes(row["players_sketch"] or b""))
        if len(sketches) > MOST_SKETCHES:
            return None
    return united_sketches(sketches) if known and all(sketches) else None


def united_sketches(sketches: Iterable[bytes]) -> int:
    """How many there are in all of them, each once; rounded as Spark does."""
    from datasketches import hll_sketch, hll_union  # Not before it is needed: it loads numpy.

    union = hll_union(SKETCH_BITS)
    for sketch in sketches:
        union.update(hll_sketch.deserialize(sketch))
    return int(union.get_estimate() + 0.5)


def _whole_days(since: datetime, until: datetime) -> set[datetime]:
    first, end = ledger.day_of(since + ledger.DAY - timedelta(microseconds=1)), ledger.day_of(until)
    done = Partition.objects.filter(grain=Grain.DAY, state=Partition.State.DONE, metric_version=METRIC_VERSION)
    known = set(done.filter(within(first, end)).values_list("start", flat=True))
    return known - {day.start for day in ledger.Days(first, end).pending()} if known else known


def _besides(days: set[datetime], since: datetime, until: datetime) -> list[tuple[datetime, datetime]]:
    """The times between the days."""
    found, first = [], since
    for day in sorted(days):
        if first < day:
            found.append((first, day))
        first = day + ledger.DAY
    return [*found, (first, until)] if first < until else found
