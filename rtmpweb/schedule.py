"""The schedule that beat keeps, from the database, where it is edited while beat runs.

When a crontab's time comes goes by the clock of its time zone and through its changes to and from summer time: Celery's
own crontab leaves out an hour as clocks go back; django-celery-beat leaves out what is more than two hours late, and
does it at another hour of the next day."""

import logging
from collections.abc import Collection
from datetime import UTC, datetime, time, timedelta, tzinfo
from datetime import timezone as fixed_zone
from itertools import product
from typing import Any, Protocol

from celery.schedules import schedstate
from django.db import DatabaseError
from django.db import Error as AnyDatabaseError
from django.db.models import F
from django.utils import timezone
from django_celery_beat.models import PeriodicTask
from django_celery_beat.schedulers import DatabaseScheduler, ModelEntry
from django_celery_beat.tzcrontab import TzAwareCrontab
from django_celery_beat.utils import NEVER_CHECK_TIMEOUT

from rtmpweb.checks import explain_database_error

HOUR = timedelta(hours=1)

DAYS = 41 * 366
"""How far is looked: the 29th of February is a given day of the week again within 40 years."""


class CrontabFields(Protocol):
    """What a crontab of Celery's has: the numbers that its fields mean. Sunday is 0."""

    minute: Collection[int]
    hour: Collection[int]
    day_of_week: Collection[int]
    day_of_month: Collection[int]
    month_of_year: Collection[int]
    tz: tzinfo


def next_time(crontab: CrontabFields, after: datetime) -> datetime | None:
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


def _first(crontab: CrontabFields, after: datetime, zone: tzinfo) -> datetime | None:
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


log = logging.getLogger(__name__)


class Crontab(TzAwareCrontab):  # type: ignore[misc]
    @classmethod
    def like(cls, other: TzAwareCrontab) -> "Crontab":
        return cls(*other.__reduce__()[1])

    def nowfunc(self) -> datetime:
        return timezone.now()

    def is_due(self, last_run_at: datetime) -> schedstate:
        now = self.now()
        at = next_time(self, last_run_at)
        is_due = at is not None and at <= now
        if is_due:
            at = next_time(self, now)
        return schedstate(is_due, (at - now).total_seconds() if at is not None else NEVER_CHECK_TIMEOUT)


class TableEntry(ModelEntry):  # type: ignore[misc]
    """A row. One that was changed counts from then on: a time that is past by its new schedule is not made up for."""

    schedule: Any

    def __init__(self, model: PeriodicTask, app: Any = None) -> None:
        self.kept = model.last_run_at
        """As the table has it."""
        super().__init__(model, app=app)
        if isinstance(self.schedule, TzAwareCrontab):
            self.schedule = Crontab.like(self.schedule)
        if self.kept is not None:
            self.last_run_at = max(self.kept, model.date_changed)

    def _default_now(self) -> datetime:
        return timezone.now()


class Schedule(DatabaseScheduler):  # type: ignore[misc]
    """Each time is taken in the table before its task is sent: it goes once, however often beat ends, or is there."""

    Entry = TableEntry
    _is_checked = False
    """Whether it was checked in this tick if the table has changed: the library asks for it several times."""
    _is_ours = False
    """Whether the entry that is due was taken by this beat."""

    def setup_schedule(self) -> None:
        """As beat starts. One that can't be read ends it with a sentence."""
        try:
            # Else the first edit of all, or one in these seconds, would be seen minutes later.
            if self.Changes.last_change() is None:
                self.Changes.update_changed()
            self.schedule_changed()
            super().setup_schedule()
        except DatabaseError as error:
            raise SystemExit(explain_database_error(error)) from None

    def schedule_changed(self) -> bool:
        if self._is_checked:
            return False
        self._is_checked = True
        return bool(super().schedule_changed())

    def tick(self, *args: Any, **kwargs: Any) -> float:
        self._is_checked = False
        try:
            return float(super().tick(*args, **kwargs))
        except AnyDatabaseError as error:
            log.warning("The schedule waits for the database: %s", error)
            self._heap = None  # Made anew with the next tick, with what this one has not done.
            return float(self.max_interval)

    def enabled_models_qs(self) -> Any:
        """All: there are few."""
        return self.Model.objects.enabled()

    def reserve(self, entry: TableEntry) -> TableEntry:
        """Takes the time that is due."""
        now, model = timezone.now(), entry.model
        untaken = self.Model.objects.filter(pk=model.pk, enabled=True, last_run_at=entry.kept)
        self._is_ours = untaken.update(last_run_at=now, total_run_count=F("total_run_count") + 1) == 1
        if not self._is_ours:
            # Another beat took it, or it was edited: the table is read again.
            self._last_full_sync = datetime.min  # noqa: DTZ901 - as the library has it.
        model.last_run_at = now
        model.total_run_count += 1
        taken = self._schedule[entry.name] = TableEntry(model, app=entry.app)
        return taken

    def apply_entry(self, entry: TableEntry, producer: Any = None) -> None:
        if self._is_ours:
            super().apply_entry(entry, producer=producer)
