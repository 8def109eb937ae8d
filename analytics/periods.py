"""The periods that reports and pages speak of: days, weeks (Monday to Sunday) and months as the clocks of a time zone
count them, and any from a moment to another.

A day has 23 or 25 hours where the clocks change. Rollups are of whole hours in UTC: in a zone that is not whole hours
off, a period is widened to those at its ends.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from analytics.models import Grain, ReportPlan

Kind = ReportPlan.Kind

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
WEEK = timedelta(days=7)
STEPS = {Grain.HOUR: HOUR, Grain.DAY: DAY}
NOUNS: dict[str, str] = {Kind.DAILY: "day", Kind.WEEKLY: "week", Kind.MONTHLY: "month", Kind.BROADCAST: "broadcast"}
LONGEST = timedelta(days=400)
"""A longer period is refused: hours are kept as long."""
YEARS = range(2000, 2101)


class PeriodProblem(ValueError):  # noqa: N818 - an answer to who asked.
    """There is no such time zone, or no such period; the text says what to give instead."""


@dataclass(frozen=True)
class Period:
    """`since` <= t < `until`, in UTC, as the clocks of `zone` count it; `grain`: what it is shown by. `kind`: of a
    report's plan, or what else names it.
    """

    kind: str
    since: datetime
    until: datetime
    zone: ZoneInfo
    grain: Grain = Grain.HOUR

    @property
    def local_since(self) -> datetime:
        return self.since.astimezone(self.zone)

    @property
    def local_until(self) -> datetime:
        return self.until.astimezone(self.zone)

    @property
    def first_hour(self) -> datetime:
        """The whole hour (UTC) that it begins in."""
        return self.since.replace(minute=0, second=0, microsecond=0)

    @property
    def end_hour(self) -> datetime:
        """The first whole hour (UTC) after it."""
        return -(-(self.until - self.first_hour) // HOUR) * HOUR + self.first_hour

    @property
    def is_widened(self) -> bool:
        """Whether its hours hold more than it."""
        return self.kind != Kind.BROADCAST and (self.first_hour, self.end_hour) != (self.since, self.until)

    @property
    def widened_words(self) -> str:
        """What a reader has to know of a period that is widened, as a sentence; "" of others."""
        if not self.is_widened:
            return ""
        since, until = (clock_words(at, self.zone) for at in (self.first_hour, self.end_hour))
        return f"{self.zone.key} is not whole hours from UTC: the figures are of whole hours, {since} to {until}."

    @property
    def step(self) -> timedelta:
        return STEPS[self.grain]

    @property
    def starts(self) -> list[datetime]:
        """The beginnings of the whole hours (UTC) that it touches, or of its days."""
        count = -(-(self.end_hour - self.first_hour) // self.step)
        return [self.first_hour + number * self.step for number in range(count)]

    @property
    def has_whole_days(self) -> bool:
        """Whether it begins and ends as a day does. (A day may begin at 01:00, where the clocks change at midnight.)"""
        return all(
            moment == midnight(local.date(), self.zone)
            for moment, local in ((self.since, self.local_since), (self.until, self.local_until))
        )

    @property
    def days(self) -> list[date]:
        """The days that it touches."""
        first, last = self.local_since.date(), (self.until - timedelta(microseconds=1)).astimezone(self.zone).date()
        return [first + number * DAY for number in range((last - first).days + 1)]

    @property
    def is_regular(self) -> bool:
        """Whether it is a day, a week or a month, as its kind says."""
        return self.kind in BEGINS and self == containing(self.kind, self.local_since.date(), self.zone)

    @property
    def before(self) -> "Period":
        """The period before it, of the same kind; of another, the one as many days long, or else as long. Raises
        PeriodProblem.
        """
        first = self.local_since.date()
        if self.is_regular:
            return containing(self.kind, first - DAY, self.zone)
        length = self.until - self.since
        begin = midnight(first - len(self.days) * DAY, self.zone) if self.has_whole_days else self.since - length
        return Period(self.kind, begin, self.since, self.zone)

    @property
    def noun(self) -> str:
        return NOUNS[self.kind] if self.is_regular or self.kind == Kind.BROADCAST else "period"

    @property
    def before_words(self) -> str:
        return f"{self.noun} before"

    @property
    def words(self) -> str:
        """Such as "7 to 13 November 2026"."""
        first, last = self.days[0], self.days[-1]
        if not self.has_whole_days:
            since, until = self.local_since, self.local_until
            end = f"{until:%H:%M}" if since.date() == until.date() else f"{day_words(until)}, {until:%H:%M}"
            return f"{day_words(first)}, {since:%H:%M} to {end}"
        if self.kind == Kind.MONTHLY and self.is_regular:
            return f"{first:%B %Y}"
        return f"{first:%A}, {day_words(first)}" if first == last else days_words(first, last, "%B")


def zone_of(name: str) -> ZoneInfo:
    """Raises PeriodProblem."""
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):  # A path outside, a folder, or nothing at all.
        raise PeriodProblem(f"There is no time zone {name[:64]!r}. Give one like Europe/Berlin, or UTC.") from None


def midnight(day: date, zone: ZoneInfo) -> datetime:
    """When a day begins, in UTC: at the first of two midnights; where there is none, when the clocks pass it."""
    return datetime.combine(day, time.min, zone).astimezone(UTC)


BEGINS: dict[str, Callable[[date], date]] = {
    Kind.DAILY: lambda day: day,
    Kind.WEEKLY: lambda day: day - day.weekday() * DAY,
    Kind.MONTHLY: lambda day: day.replace(day=1),
}
"""The first day of the period with a day, by kind."""

AT_MOST: dict[str, timedelta] = {Kind.DAILY: DAY, Kind.WEEKLY: WEEK, Kind.MONTHLY: 31 * DAY}
"""How long a period is: so long after its first day is a day of the next one."""


def containing(kind: str, day: date, zone: ZoneInfo) -> Period:
    """The day, week or month with a day. Raises PeriodProblem for a kind that has none."""
    if kind not in BEGINS:
        raise PeriodProblem("A broadcast's report needs its begin and its end.")
    _check_year(day.year)
    first = BEGINS[kind](day)
    return Period(kind, midnight(first, zone), midnight(BEGINS[kind](first + AT_MOST[kind]), zone), zone)


def around(kind: str, moment: datetime, zone: ZoneInfo) -> Period:
    """The day, week or month with a moment. Raises PeriodProblem."""
    _check_year(moment.year)
    return containing(kind, moment.astimezone(zone).date(), zone)


def _check_year(year: int) -> None:
    if year not in YEARS:
        raise PeriodProblem(f"The period has to be in the years {YEARS.start} to {YEARS.stop - 1}.")


def of_days(first: date, last: date, zone: ZoneInfo, kind: str = "") -> Period:
    """From the first day to the last, that one included."""
    return Period(kind, midnight(first, zone), midnight(last + DAY, zone), zone)


def last_ended(kind: str, now: datetime, zone: ZoneInfo) -> Period:
    """The day, week or month before the one that it is."""
    return containing(kind, BEGINS[kind](now.astimezone(zone).date()) - DAY, zone)


def exact(kind: str, since: datetime, until: datetime, zone: ZoneInfo) -> Period:
    """Raises PeriodProblem where it is none, or too long."""
    _check_year(since.year)
    if not timedelta(0) < until - since <= LONGEST:
        raise PeriodProblem(f"The period has to end after it begins, and within {LONGEST.days} days.")
    return Period(kind, since.astimezone(UTC), until.astimezone(UTC), zone)


def day_words(day: date) -> str:
    return f"{day.day} {day:%B %Y}"


def clock_words(moment: datetime, zone: ZoneInfo) -> str:
    """Such as "7 Nov 2026, 00:00"."""
    local = moment.astimezone(zone)
    return f"{local.day} {local:%b %Y, %H:%M}"


def days_words(first: date, last: date, month: str) -> str:
    """ "30 November to 6 December 2026"; `month`: as strftime shall write it."""
    year = f" {first:%Y}" if first.year != last.year else ""
    begin = f" {first:{month}}{year}" if year or first.month != last.month else ""
    return f"{first.day}{begin} to {last.day} {last:{month} %Y}"
