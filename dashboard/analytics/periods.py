"""The period that a page of history is about: one of a few, or from a day to a day, by hour or by day; all in UTC."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Self

from django.utils import timezone
from django.utils.dateparse import parse_date

from analytics.models import METRIC_VERSION, Grain, Partition

DAY = timedelta(days=1)
RANGES = {"24h": DAY, "7d": timedelta(days=7), "30d": timedelta(days=30), "90d": timedelta(days=90)}
RANGE_WORDS = {"24h": "24 h", "7d": "7 days", "30d": "30 days", "90d": "90 days"}
DATES = "dates"
"""The range of those who chose dates."""

STEPS = {Grain.HOUR: timedelta(hours=1), Grain.DAY: DAY}
GRAIN_WORDS = {Grain.HOUR: "By hour", Grain.DAY: "By day"}
BY_HOUR_UP_TO = timedelta(days=14)
"""Longer ones are shown by day unless hours are asked for."""

LONGEST = {Grain.HOUR: timedelta(days=92), Grain.DAY: timedelta(days=800)}
"""What a page reads and draws at most."""


@dataclass(frozen=True, slots=True)
class Grains:
    """The grain that was asked for, if it is one; without it, up to which length hours are shown."""

    asked: str
    by_hour_up_to: timedelta

    def of(self, length: timedelta) -> Grain:
        if self.asked in Grain.values:
            return Grain(self.asked)
        return Grain.HOUR if length <= self.by_hour_up_to else Grain.DAY


@dataclass(frozen=True)
class Period:
    """From `since` up to (not with) `until`, which begin an hour or a day. `range` is its name in a page's address."""

    range: str
    grain: Grain
    since: datetime
    until: datetime
    fault: str = ""
    """Why it is not the one that was asked for."""

    @classmethod
    def of(cls, query: Mapping[str, str], usual: str = "24h", by_hour_up_to: timedelta = BY_HOUR_UP_TO) -> Self:
        """From a page's address; what can't be understood is taken as not given. `usual`: the range without one."""
        grains = Grains(query.get("grain", ""), by_hour_up_to)
        if query.get("from") or query.get("to"):
            first, last = _day(query.get("from", "")), _day(query.get("to", ""))
            if first and last and first <= last:
                return cls._of_dates(first, last, grains)
            fault = "The last day is before the first." if first and last else "Both days are needed, as 2026-11-14."
            return replace(cls._of_range(usual, grains), fault=fault)
        name = query.get("range", "")
        return cls._of_range(name if name in RANGES else usual, grains)

    @classmethod
    def _of_range(cls, name: str, grains: Grains) -> Self:
        length = RANGES[name]
        step = grains.of(length)
        now = timezone.now().astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        until = (now.replace(hour=0) if step == Grain.DAY else now) + STEPS[step]
        return cls(name, step, until - length, until)

    @classmethod
    def _of_dates(cls, first: date, last: date, grains: Grains) -> Self:
        since = datetime.combine(first, time(), UTC)
        until = datetime.combine(last, time(), UTC) + DAY
        step, fault = grains.of(until - since), ""
        if until - since > LONGEST[step] and step == Grain.HOUR:
            step, fault = Grain.DAY, f"Shown by day: by hour it is {LONGEST[Grain.HOUR].days} days at most."
        if until - since > LONGEST[step]:
            since, fault = until - LONGEST[step], f"These are its last {LONGEST[step].days} days: more is not shown."
        return cls(DATES, step, since, until, fault)

    @property
    def step(self) -> timedelta:
        return STEPS[self.grain]

    @property
    def starts(self) -> list[datetime]:
        """The beginnings of its hours or days."""
        return [self.since + number * self.step for number in range(round((self.until - self.since) / self.step))]

    @property
    def before(self) -> "Period":
        """The one of the same length that ends where it begins."""
        return replace(self, since=self.since - (self.until - self.since), until=self.since)

    @property
    def days(self) -> int:
        """Its length, rounded up."""
        return -((self.since - self.until) // DAY)

    @property
    def first_day(self) -> date:
        return self.since.date()

    @property
    def last_day(self) -> date:
        return (self.until - timedelta(seconds=1)).date()

    @property
    def length_words(self) -> str:
        return "24 hours" if self.days == 1 else f"{self.days} days"

    @property
    def before_words(self) -> str:
        """Of the period before it: "week before"."""
        return {1: "day before", 7: "week before"}.get(self.days, f"{self.days} days before")

    @property
    def words(self) -> str:
        """ "7 to 13 Nov 2026", with hours where it begins or ends in a day."""
        last = self.last_day
        if self.since.hour or self.until.hour:
            return f"{self.since:%-d %b, %H:%M} to {self.until:%-d %b %Y, %H:%M}"
        if self.first_day == last:
            return f"{last:%-d %b %Y}"
        year = f" {self.since:%Y}" if self.first_day.year != last.year else ""
        month = f" {self.since:%b}" if year or self.first_day.month != last.month else ""
        return f"{self.since.day}{month}{year} to {last:%-d %b %Y}"

    @property
    def query(self) -> dict[str, str]:
        """What names it in a page's address."""
        if self.range == DATES:
            return {"from": str(self.first_day), "to": str(self.last_day), "grain": str(self.grain)}
        return {"range": self.range, "grain": str(self.grain)}


def _day(text: str) -> date | None:
    try:
        found = parse_date(text)
    except ValueError:
        return None
    return found if found and 1971 <= found.year < 9000 else None


@dataclass(frozen=True, slots=True)
class Completeness:
    """Of the period's hours in which something was recorded, as the ledger knows: how many, and how many are done."""

    expected: int
    done: int

    @classmethod
    def of(cls, period: Period) -> Self:
        hours = Partition.objects.filter(grain=Grain.HOUR, start__gte=period.since, start__lt=period.until)
        done = hours.filter(state=Partition.State.DONE, metric_version=METRIC_VERSION)
        return cls(hours.count(), done.count())

    @property
    def is_complete(self) -> bool:
        return self.done >= self.expected
