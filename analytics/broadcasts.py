"""Broadcasts: sessions of one stream, joined over gaps of at most 300 s.

Sessions say that one has ended, and when; its rollups say by which value they know it, from when it is counted, and
what it came to."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby
from operator import itemgetter

from django.db.models import Q

from analytics.figures import Figures, QuantilePart, Sums, added_sums, merged_quantiles
from analytics.ledger import day_of
from analytics.metrics import BROADCAST_GAP_S
from analytics.models import METRIC_VERSION, Dimension, Grain, Partition, ReportPlan
from analytics.periods import DAY, HOUR, Period, zone_of
from analytics.rollups import Rollups, hours_in_lake
from analytics.scopes import Scope
from ingest.models import Session

GAP = timedelta(seconds=BROADCAST_GAP_S)
SLACK = timedelta(seconds=60)
"""A session's row and its first sample are this much apart at most."""
MARGIN = timedelta(days=1)
"""A broadcast's sessions that ended earlier than this before the time that is asked about are not looked at."""
LAG = timedelta(minutes=2)
"""A sample is in the lake this long after its time."""
LONGEST = timedelta(days=60)
"""Between a broadcast and the one before, to be compared with it."""


@dataclass(frozen=True, slots=True)
class Broadcast:
    """From its first session's begin to its last one's end, or as far as it is computed."""

    app: str
    name: str
    since: datetime
    until: datetime

    def is_computed(self) -> bool:
        """Whether each of its hours was computed when all of what it holds of the broadcast was in the lake."""
        first = self.since.replace(minute=0, second=0, microsecond=0)
        hours = [first + number * HOUR for number in range((self.until - first) // HOUR + 1)]
        rows = Partition.objects.filter(grain=Grain.HOUR, start__in=hours, metric_version=METRIC_VERSION)
        known = dict(rows.values_list("start", "processed_at"))
        return all((known.get(hour) or hour) >= min(self.until, hour + HOUR) + LAG for hour in hours)

    def counted(self, zone: str) -> tuple[Period, Scope] | None:
        """What its report is made of; None while none of its hours was computed."""
        rows = _rows(self.app, self.name, self.since - SLACK - HOUR, self.until + SLACK)
        for value in sorted({row["value"] for row in rows.values("start", "value")}):
            begins = datetime.fromisoformat(value)
            if self.since - SLACK <= begins <= self.until:
                period = Period(ReportPlan.Kind.BROADCAST, begins, max(self.until, begins + SLACK), zone_of(zone))
                return period, Scope(self.app, self.name, value)
        return None


def ended_broadcasts(scope: Scope, since: datetime, now: datetime) -> Iterator[Broadcast]:
    """Those that ended at `since` or later, and after which nothing came for 300 s: by stream, the latest first."""
    sessions = Session.objects.filter(
        Q(ended_at=None) | Q(ended_at__gte=since - MARGIN), kind=Session.Kind.PUBLISH, is_test=False
    )
    if scope.app:
        sessions = sessions.filter(app=scope.app)
    if scope.name:
        sessions = sessions.filter(name=scope.name)
    rows = sessions.order_by("app", "name", "-started_at").values_list("app", "name", "started_at", "ended_at")
    for (app, name), times in groupby(rows, key=itemgetter(0, 1)):
        yield from _chains(app, name, ((started, stopped or now) for _, _, started, stopped in times), since, now)


def _chains(
    app: str, name: str, times: Iterable[tuple[datetime, datetime]], since: datetime, now: datetime
) -> Iterator[Broadcast]:
    """A stream's. `times`: when its sessions began and ended, the latest first."""
    begin: datetime | None = None
    end = now
    for started, until in times:
        if begin is not None and begin - until > GAP:
            if since <= end < now - GAP:
                yield Broadcast(app, name, begin, end)
            begin = None
        if begin is None:
            begin, end = started, until
        begin = min(begin, started)
        if end < since:
            return
    if begin is not None and since <= end < now - GAP:
        yield Broadcast(app, name, begin, end)


def broadcast_before(period: Period, scope: Scope) -> tuple[Period, Scope] | None:
    """The stream's broadcast before one; None if there is none in LONGEST."""
    rows = _rows(scope.app, scope.name, period.first_hour - LONGEST, period.first_hour + HOUR)
    hours: dict[str, list[datetime]] = defaultdict(list)
    for row in rows.values("start", "value"):
        hours[row["value"]].append(row["start"])
    former = max((value for value in hours if value < scope.value), default=None)
    if former is None:
        return None
    counted = Period(period.kind, hours[former][0], hours[former][-1] + HOUR, period.zone)
    return counted, Scope(scope.app, scope.name, former)


def _rows(app: str, name: str, since: datetime, until: datetime) -> Rollups:
    return Rollups(Dimension.BROADCAST, Grain.HOUR, since, until, app=app, name=name)


def computed_broadcasts(app: str, name: str, period: Period, most: int) -> list[tuple[Broadcast, Figures]]:
    """A stream's that were on air in the period, the latest `most`, newest first: each from begin to end, as far as it
    is computed, and its figures.
    """
    own = partial(Rollups, Dimension.BROADCAST, app=app, name=name)
    since, until, beyond = period.since, period.end_hour, period.grain
    if period.grain == Grain.HOUR and hours_in_lake(Dimension.BROADCAST, None, None).exists():
        # What they have before and after its days is taken from days: one that goes on for months has many files.
        since, until, beyond = day_of(since), day_of(until - HOUR) + DAY, Grain.DAY
    around = own(period.grain, since, until)
    last: dict[str, datetime] = {}
    for row in around.values("start", "value"):
        if period.since <= row["start"] < period.until:
            last[row["value"]] = row["start"]
    begins = sorted(last, key=lambda value: (last[value], value), reverse=True)[:most]
    parts: dict[str, list[QuantilePart]] = defaultdict(list)
    sums: dict[str, Sums] = {}
    before, after = own(beyond, None, since, values=begins), own(beyond, until, None, values=begins)
    for rows in (around, before, after) if begins else ():
        for (value,), some in rows.parts("value").items():
            parts[value] += some
        for (value,), more in rows.sums("value").items():
            sums[value] = added_sums(sums[value], more) if value in sums else more
    found = []
    for value in begins:
        begin = datetime.fromisoformat(value)
        figures = Figures.of_sums(sums[value], merged_quantiles(parts[value]))
        length = timedelta(milliseconds=figures.elapsed_ms + figures.recovery_ms)
        found.append((Broadcast(app, name, begin, begin + length), figures))
    return sorted(found, key=lambda each: each[0].since, reverse=True)
