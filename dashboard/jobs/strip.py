"""The ledger's hours as a strip for each day: which are done, to do, failed, and in which nothing was recorded."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from django.utils import timezone

from analytics.models import METRIC_VERSION, Grain, Partition
from dashboard import zones

HOUR, DAY = timedelta(hours=1), timedelta(days=1)

RANGES = {7: "7 days", 30: "30 days"}

State = Partition.State


@dataclass(frozen=True, slots=True)
class Bar:
    """An hour's bar, in a box 13 high, and its words. Trouble stands up."""

    y: int
    height: int
    words: str


BARS = {
    "done": Bar(9, 4, "done"),
    "todo": Bar(5, 8, "to do"),
    "running": Bar(5, 8, "being computed"),
    "failed": Bar(0, 13, "failed"),
    "none": Bar(12, 1, "without data"),
}


@dataclass(frozen=True, slots=True)
class Hour:
    start: datetime
    state: str
    x: str
    width: str

    @property
    def bar(self) -> Bar:
        return BARS[self.state]


@dataclass(frozen=True, slots=True)
class Day:
    start: date
    hours: list[Hour]

    @property
    def words(self) -> str:
        """Such as "22 done, 1 failed, 1 without data"."""
        counts = Counter(hour.state for hour in self.hours)
        return ", ".join(f"{counts[state]} {bar.words}" for state, bar in BARS.items() if counts[state])


STANDING = ("start", "state", "metric_version")


def days(count: int, now: datetime) -> list[Day]:
    """The last `count` days (of the current zone), today first, with their hours until now."""
    today = timezone.localtime(now).date()
    rows = Partition.objects.filter(grain=Grain.HOUR, start__gte=_first_hour(today - (count - 1) * DAY))
    known = {start: standing(state, version) for start, state, version in rows.values_list(*STANDING)}
    return [_day(today - number * DAY, now, known) for number in range(count)]


def standing(state: str, version: int) -> str:
    """How an hour or a day stands. What was done by an older meaning of the metrics is to do again."""
    if state == State.DONE:
        return "done" if version == METRIC_VERSION else "todo"
    return {State.PENDING: "todo", State.RUNNING: "running", State.FAILED: "failed"}[State(state)]


def _first_hour(day: date) -> datetime:
    """The whole hour (UTC) that the day begins in."""
    return zones.begin(day).replace(minute=0, second=0, microsecond=0)


def _day(day: date, now: datetime, known: Mapping[datetime, str]) -> Day:
    first = _first_hour(day)
    starts = [first + number * HOUR for number in range((_first_hour(day + DAY) - first) // HOUR)]
    share = 100 / len(starts)
    return Day(
        day,
        [
            Hour(hour, known.get(hour, "none"), f"{number * share:.3f}%", f"{share * 0.86:.3f}%")
            for number, hour in enumerate(starts)
            if hour <= now
        ],
    )
