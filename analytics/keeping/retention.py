"""What is old goes: samples first, then minutes, hours and, if that is wished, days. Never what is yet to be computed.

Samples and events of an hour go when it and its day are done, and seal its row in the ledger: what comes later for it
is not taken for the whole hour. Hours go, lake and database together, when their day is done. All goes by whole days
(UTC): a day made anew from some of its hours would lose the others.
"""

import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from django.db import transaction
from django.utils import timezone

from analytics import ledger, locks, quarantine, tables
from analytics.ledger import DAY
from analytics.models import METRIC_VERSION, Grain, Partition, Rollup
from ingest.services.retention import in_pieces
from ingest.telemetry.lake import hour_folder

State = Partition.State


@dataclass(frozen=True, slots=True)
class Kept:
    """For how many days each grain is kept; 0: for ever."""

    samples: int
    minutes: int
    hours: int
    days: int


@dataclass(slots=True)
class Gone:
    sample_hours: int = 0
    set_aside: int = 0
    """Files of the quarantine."""
    minute_days: int = 0
    hour_days: int = 0
    days: int = 0
    rows: int = 0
    """Of the database."""


def remove_old(lake: Path, kept: Kept, now: datetime) -> Gone:
    """Removes what is older than it should be and not needed any more. Repeating it does no harm. Raises OSError."""
    gone = Gone()
    if kept.samples:
        quarantine.set_aside_late(lake)
        days = {ledger.day_of(start) for start in ledger.scan(lake, until=_day_before(now, kept.samples))}
        gone.sample_hours = sum(_seal(lake, day) for day in sorted(days))
        gone.set_aside = quarantine.remove_old(lake, _day_before(now, kept.samples))
    if kept.minutes:
        gone.minute_days = _remove_days(lake, tables.PARTIALS, _day_before(now, kept.minutes))
    if kept.hours:
        before = _day_before(now, kept.hours)
        for day in _done_days(before):
            gone.rows += _remove_hours(lake, day)
            gone.hour_days += 1
    if kept.days:
        before = _day_before(now, kept.days)
        gone.rows += in_pieces(Rollup.objects.filter(grain=Grain.DAY, start__lt=before).order_by("start"))
        gone.days = _remove_days(lake, tables.DAY, before)
    return gone


def _day_before(now: datetime, days: int) -> datetime:
    """The day (UTC) that is the first to be kept."""
    return ledger.day_of(now) - timedelta(days=days)


def _seal(lake: Path, day: datetime) -> int:
    """Removes the samples and events of a day's hours, if the day and all of them are made from just these; how many
    hours. Not of some of them: a day is made from all of its hours, or not at all.
    """
    hours = ledger.scan(lake, day, day + DAY)
    found = [locks.hold(start) for start in hours]
    held = [lock for lock in found if lock]
    try:
        pending = ledger.Hours(lake, day, day + DAY).pending() or ledger.Days(day, day + DAY).pending()
        done = Partition.objects.filter(grain=Grain.DAY, start=day, state=State.DONE, metric_version=METRIC_VERSION)
        if len(held) < len(hours) or pending or not done.exists():
            return 0
        of_day = Partition.objects.filter(grain=Grain.HOUR, start__gte=day, start__lt=day + DAY)
        of_day.filter(sealed_at=None).update(sealed_at=timezone.now())
        for start in hours:
            for table in ledger.TABLES:
                shutil.rmtree(hour_folder(lake, table, start), ignore_errors=True)
                _remove_empty(hour_folder(lake, table, start).parent)
        return len(hours)
    finally:
        for lock in held:
            lock.give_back()


def _done_days(before: datetime) -> list[datetime]:
    """Days that are done of which there still are hours, each of them sealed."""
    hours = Partition.objects.filter(grain=Grain.HOUR, start__lt=before)
    waiting = {ledger.day_of(start) for start in hours.filter(sealed_at=None).values_list("start", flat=True)}
    days = {ledger.day_of(start) for start in hours.values_list("start", flat=True)} - waiting
    done = Partition.objects.filter(grain=Grain.DAY, state=State.DONE, start__in=days)
    return sorted(done.values_list("start", flat=True))


def _remove_hours(lake: Path, day: datetime) -> int:
    """A day's hours: from the database, the ledger and the lake; how many rows."""
    of_day = {"grain": Grain.HOUR, "start__gte": day, "start__lt": day + DAY}
    rows = in_pieces(Rollup.objects.filter(**of_day).order_by("start"))
    if Rollup.objects.filter(**of_day).exists():  # The time for it was over: the next run goes on.
        return rows
    with transaction.atomic():
        Partition.objects.filter(**of_day).delete()
        # What comes later for one of them would be all that the day is made of.
        Partition.objects.filter(grain=Grain.DAY, start=day).update(sealed_at=timezone.now())
    for table in (tables.SESSION_HOURS, tables.HOUR):
        for version in range(1, METRIC_VERSION + 1):  # Sealed hours are as they were computed.
            shutil.rmtree(tables.day_folder(lake, table, day, version), ignore_errors=True)
    return rows


def _remove_days(lake: Path, table: str, before: datetime) -> int:
    """The table's folders of days before that; how many."""
    gone = 0
    for folder in sorted(tables.table_folder(lake, table).glob("dt=????-??-??")):
        if datetime.strptime(folder.name, "dt=%Y-%m-%d").replace(tzinfo=UTC) < before:
            shutil.rmtree(folder, ignore_errors=True)
            gone += 1
    return gone


def _remove_empty(folder: Path) -> None:
    if folder.exists() and not any(folder.iterdir()):
        folder.rmdir()
