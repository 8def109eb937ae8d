"""The period that a page of history is about: one of a few, or from a day to a day, by hour or by day.

History is of whole hours and days of UTC. By hour it is shown, and its days are meant, in the current time zone (a day
is widened to the hours of UTC at its ends, as in reports, and `note` says so); by day both are of UTC.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, time, timedelta
from typing import Self
from zoneinfo import ZoneInfo

from django.utils import timezone
from django.utils.dateparse import parse_date

from analytics.models import Grain
from analytics.periods import DAY, Period, days_words, of_days
from dashboard import zones

RANGES = {"24h": DAY, "7d": timedelta(days=7), "30d": timedelta(days=30), "90d": timedelta(days=90)}
RANGE_WORDS = {"24h": "24 h", "7d": "7 days", "30d": "30 days", "90d": "90 days"}
DATES = "dates"
"""The range of those who chose dates."""

GRAIN_WORDS = {Grain.HOUR: "By hour", Grain.DAY: "By day"}
BY_HOUR_UP_TO = timedelta(days=14)
"""Longer ones are shown by day unless hours are asked for."""

LONGEST = {Grain.HOUR: timedelta(days=92), Grain.DAY: timedelta(days=800)}
"""What a page reads and draws at most."""


@dataclass(frozen=True)
class PagePeriod(Period):
    """From `since`, which begins an hour or a day of UTC, up to (not with) `until`: of dates that begins one as well. A
    range ends now: it has its whole hours or days, and the one that goes on besides. `kind`: its range's name in a
    page's address.
    """

    fault: str = ""
    """Why it is not the one that was asked for."""
    dates: tuple[date, date] | None = None
    """The first and the last day, where these were asked for."""

    @classmethod
    def of(cls, query: Mapping[str, str], usual: str = "24h", by_hour_up_to: timedelta = BY_HOUR_UP_TO) -> Self:
        """From a page's address; what can't be understood is taken as not given. `usual`: the range without one,
        `by_hour_up_to`: the length up to which hours are shown where no grain is asked for.
        """

        def grain_of(length: timedelta) -> Grain:
            asked = query.get("grain", "")
            return Grain(asked) if asked in Grain.values else Grain.HOUR if length <= by_hour_up_to else Grain.DAY

        name, fault = query.get("range", ""), ""
        if query.get("from") or query.get("to"):
            first, last = _day(query.get("from", "")), _day(query.get("to", ""))
            if first and last and first <= last:
                return cls._of_dates(first, last, grain_of(last - first + DAY))
            fault = (
                "The last day is before the first." if first and last else "Both days are needed, such as 2026-11-14."
            )
            name = usual
        name = name if name in RANGES else usual
        return cls._of_range(name, grain_of(RANGES[name]), fault)

    @classmethod
    def _of_range(cls, name: str, grain: Grain, fault: str) -> Self:
        now = timezone.now().astimezone(UTC)
        begun = now.replace(minute=0, second=0, microsecond=0)
        begun = begun.replace(hour=0) if grain == Grain.DAY else begun
        return cls(name, begun - RANGES[name], now, _zone(grain), grain, fault)

    @classmethod
    def _of_dates(cls, first: date, last: date, grain: Grain) -> Self:
        length, fault = last - first + DAY, ""
        if length > LONGEST[grain] and grain == Grain.HOUR:
            grain, fault = Grain.DAY, f"Shown by day: by hour, {LONGEST[Grain.HOUR].days} days at most."
        if length > LONGEST[grain]:
            first = last - LONGEST[grain] + DAY
            fault = f"These are its last {LONGEST[grain].days} days: more can't be shown."
        days = of_days(first, last, _zone(grain))
        return cls(DATES, days.first_hour, days.end_hour, days.zone, grain, fault, (first, last))

    @property
    def note(self) -> str:
        """A sentence on what its figures hold besides."""
        return of_days(*self.dates, self.zone).widened_words if self.dates else ""

    @property
    def before(self) -> "PagePeriod":
        """The one of the same length that ends where it begins."""
        length = RANGES.get(self.kind, self.until - self.since)
        return replace(self, kind="", since=self.since - length, until=self.since, dates=None)

    @property
    def is_range(self) -> bool:
        """Whether it ends now."""
        return self.kind in RANGES

    @property
    def length_days(self) -> int:
        """A day on which the clocks change is one as well."""
        return max(1, round(RANGES.get(self.kind, self.until - self.since) / DAY))

    @property
    def first_day(self) -> date:
        return self.dates[0] if self.dates else self.days[0]

    @property
    def last_day(self) -> date:
        return self.dates[1] if self.dates else self.days[-1]

    @property
    def length_words(self) -> str:
        return "24 hours" if self.length_days == 1 else f"{self.length_days} days"

    @property
    def before_words(self) -> str:
        """Of the period before it: "week before"."""
        return {1: "day before", 7: "week before"}.get(self.length_days, f"{self.length_days} days before")

    @property
    def words(self) -> str:
        """ "7 to 13 Nov 2026", with hours where it begins or ends in a day."""
        first, last = self.first_day, self.last_day
        since, until = self.local_since, self.local_until
        if self.is_range:
            return f"{since:%-d %b, %H:%M} to now, {until:%-d %b %Y, %H:%M}"
        if not self.dates and (since.time(), until.time()) != (time(), time()):
            return f"{since:%-d %b, %H:%M} to {until:%-d %b %Y, %H:%M}"
        return f"{last:%-d %b %Y}" if first == last else days_words(first, last, "%b")

    @property
    def query(self) -> dict[str, str]:
        if self.kind == DATES:
            return {"from": str(self.first_day), "to": str(self.last_day), "grain": str(self.grain)}
        return {"range": self.kind, "grain": str(self.grain)}


def _zone(grain: Grain) -> ZoneInfo:
    return zones.UTC_ZONE if grain == Grain.DAY else zones.current()


def _day(text: str) -> date | None:
    try:
        found = parse_date(text)
    except ValueError:
        return None
    return found if found and 1971 <= found.year < 9000 else None
