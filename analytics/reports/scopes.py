"""Whose rollups a report is made from: all streams', an application's, one stream's, or one broadcast's.

A broadcast is sessions of one stream, joined over gaps of at most 300 s. Sessions say that one has ended, and when; its
rollups say by which value they know it, and from when it is counted."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Self

from django.db.models import Q, QuerySet

from analytics.models import METRIC_VERSION, Dimension, Grain, Partition, ReportPlan, Rollup
from analytics.reports import periods
from analytics.reports.periods import HOUR, Period
from analytics.rollups import Rollups
from ingest.models import Application, Session, Stream


class NoSuchScope(ValueError):  # noqa: N818 - an answer to who asked.
    """There is no such application or stream; the text says what may be given."""


@dataclass(frozen=True, slots=True)
class Scope:
    """`value`: a broadcast's, as its rollups have it; empty otherwise."""

    app: str = ""
    name: str = ""
    value: str = ""

    @classmethod
    def of(cls, text: str) -> Self:
        """From `Report.scope`: "" all streams, an application's name, or app/name."""
        app, _, name = text.partition("/")
        return cls(app, name)

    @classmethod
    def asked(cls, text: str) -> Self:
        """From what somebody typed: one that there is, or whose history outlived it. Raises NoSuchScope."""
        scope = cls.of(text.strip().strip("/"))
        if scope.text and not (scope._there().exists() or scope._measured().exists()):
            raise NoSuchScope(f"There is no application or stream {scope.text[:80]}. Empty: all streams.")
        return scope

    @property
    def text(self) -> str:
        """As `Report.scope` has it."""
        return f"{self.app}/{self.name}" if self.name else self.app

    @property
    def words(self) -> str:
        if self.name:
            return self.text
        return f"All streams of {self.app}" if self.app else "All streams"

    def streams(self, period: Period) -> Rollups:
        """The hours of each of its streams."""
        return self._hours(period, Dimension.BROADCAST if self.value else Dimension.STREAM)

    def together(self, period: Period) -> Rollups:
        """The hours of all its streams together: one row an hour, of several applications one each."""
        return self.streams(period) if self.name else self._hours(period, Dimension.APP)

    def nodes(self, period: Period) -> Rollups:
        """The hours of each node: what happened at all."""
        return Rollups(Dimension.NODE, Grain.HOUR, period.first_hour, period.end_hour)

    def _there(self) -> "QuerySet[Stream] | QuerySet[Application]":
        if self.name:
            return Stream.objects.filter(application__name=self.app, name=self.name)
        return Application.objects.filter(name=self.app)

    def _measured(self) -> QuerySet[Rollup]:
        dimension = Dimension.STREAM if self.name else Dimension.APP
        return Rollup.objects.filter(dimension=dimension, grain__in=Grain.values, app=self.app, name=self.name)

    def _hours(self, period: Period, dimension: Dimension) -> Rollups:
        return Rollups(
            dimension,
            Grain.HOUR,
            period.first_hour,
            period.end_hour,
            app=self.app or None,
            name=self.name or None,
            values=[self.value] if self.value else None,
        )


GAP = timedelta(seconds=300)
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
    """As its sessions tell it."""

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
                period = Period(
                    ReportPlan.Kind.BROADCAST, begins, max(self.until, begins + SLACK), periods.zone_of(zone)
                )
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
