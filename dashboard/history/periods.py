"""The period that a page of history is about: one of a few, or from a day to a day, by hour or by day.

History is of whole hours and days of UTC. By hour it is shown, and its days are meant, in the current time zone (a day
is widened to the hours of UTC at its ends, as in reports, and `note` says so); by day both are of UTC.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Self

from django.utils import timezone
from django.utils.dateparse import parse_date

from analytics import completeness
from analytics.models import METRIC_VERSION, Grain, Partition
from analytics.reports import periods
from dashboard import zones

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
RANGES = {"24h": DAY, "7d": timedelta(days=7), "30d": timedelta(days=30), "90d": timedelta(days=90)}
RANGE_WORDS = {"24h": "24 h", "7d": "7 days", "30d": "30 days", "90d": "90 days"}
DATES = "dates"
"""The range of those who chose dates."""

STEPS = {Grain.HOUR: HOUR, Grain.DAY: DAY}
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
    """From `since` up to (not with) `until`, which begin an hour or a day of UTC. `range` is its name in a page's
    address.
    """

    range: str
    grain: Grain
    since: datetime
    until: datetime
    fault: str = ""
    """Why it is not the one that was asked for."""
    dates: tuple[date, date] | None = None
    """The first and the last day, where these were asked for."""
    note: str = ""
    """A sentence on what its figures hold besides."""

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
        length = last - first + DAY
        step, fault = grains.of(length), ""
        if length > LONGEST[step] and step == Grain.HOUR:
            step, fault = Grain.DAY, f"Shown by day: by hour it is {LONGEST[Grain.HOUR].days} days at most."
        if length > LONGEST[step]:
            first = last - LONGEST[step] + DAY
            fault = f"These are its last {LONGEST[step].days} days: more is not shown."
        if step == Grain.DAY:
            since, until = datetime.combine(first, time(), UTC), datetime.combine(last, time(), UTC) + DAY
            return cls(DATES, step, since, until, fault, (first, last))
        days = periods.Period(periods.Kind.DAILY, zones.begin(first), zones.begin(last + DAY), zones.current())
        return cls(DATES, step, days.first_hour, days.end_hour, fault, (first, last), days.widened_words)

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
        return replace(self, since=self.since - (self.until - self.since), until=self.since, dates=None, note="")

    @property
    def days(self) -> int:
        """Its length: a day on which the clocks change is one as well."""
        return max(1, round((self.until - self.since) / DAY))

    @property
    def first_day(self) -> date:
        return self.dates[0] if self.dates else self._local(self.since).date()

    @property
    def last_day(self) -> date:
        return self.dates[1] if self.dates else self._local(self.until - timedelta(seconds=1)).date()

    def _local(self, at: datetime) -> datetime:
        return at.astimezone(UTC) if self.grain == Grain.DAY else timezone.localtime(at)

    @property
    def zone(self) -> str:
        """Whose days and hours they are."""
        return "UTC" if self.grain == Grain.DAY else timezone.get_current_timezone_name()

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
        first, last = self.first_day, self.last_day
        since, until = self._local(self.since), self._local(self.until)
        if not self.dates and (since.time(), until.time()) != (time(), time()):
            return f"{since:%-d %b, %H:%M} to {until:%-d %b %Y, %H:%M}"
        if first == last:
            return f"{last:%-d %b %Y}"
        year = f" {first:%Y}" if first.year != last.year else ""
        month = f" {first:%b}" if year or first.month != last.month else ""
        return f"{first.day}{month}{year} to {last:%-d %b %Y}"

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
    """Of the period's hours in which something was recorded, as the ledger knows: how many, how many are done, and what
    those lack.
    """

    expected: int
    done: int
    notes: list[completeness.Note]

    @classmethod
    def of(cls, period: Period) -> Self:
        hours = Partition.objects.filter(grain=Grain.HOUR, start__gte=period.since, start__lt=period.until)
        done = hours.filter(state=Partition.State.DONE, metric_version=METRIC_VERSION)
        return cls(hours.count(), done.count(), completeness.notes(period.since, period.until))

    @property
    def is_complete(self) -> bool:
        return self.done >= self.expected
