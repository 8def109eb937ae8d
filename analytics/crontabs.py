"""When a crontab's time comes, by the clock of its time zone and through its changes to and from summer time."""

from collections.abc import Collection
from datetime import UTC, datetime, time, timedelta, tzinfo
from datetime import timezone as fixed_zone
from itertools import product
from typing import Protocol

HOUR = timedelta(hours=1)

DAYS = 41 * 366
"""How far is looked: the 29th of February is a given day of the week again within 40 years."""


class Crontab(Protocol):
    """What a crontab of Celery's has: the numbers that its fields mean. Sunday is 0."""

    minute: Collection[int]
    hour: Collection[int]
    day_of_week: Collection[int]
    day_of_month: Collection[int]
    month_of_year: Collection[int]
    tz: tzinfo


def following(crontab: Crontab, after: datetime) -> datetime | None:
    """The crontab's first time after `after`, in UTC; None if it has none.

    - Hours that are listed are times of day, and come once a day. One that clocks skip comes as much later as they
      skip; one that they repeat comes the first time (RFC 5545, 3.3.5, says the same of events).
    - Where all hours are meant, each hour that passes has its time, whatever clocks do. They are read as they stood at
      `after`: where they change by half an hour, two times are once only half an hour apart.
    """
    if len(crontab.hour) == 24:
        soon = _first(crontab, after, fixed_zone(after.astimezone(crontab.tz).utcoffset() or timedelta()))
        if soon is not None and soon - after <= HOUR:
            return soon
    return _first(crontab, after, crontab.tz)


def _first(crontab: Crontab, after: datetime, zone: tzinfo) -> datetime | None:
    yesterday = after.astimezone(zone).date() - timedelta(days=1)
    for number in range(DAYS):
        day = yesterday + timedelta(days=number)
        if (
            day.month in crontab.month_of_year
            and day.day in crontab.day_of_month
            and day.isoweekday() % 7 in crontab.day_of_week
        ):
            clock = (datetime.combine(day, time(*at), zone) for at in product(crontab.hour, crontab.minute))
            later = [at for at in (local.astimezone(UTC) for local in clock) if at > after]
            if later:
                return min(later)
    return None
