"""What is done to the lake each hour: closed hours are compacted, and what is old is removed.

Compaction makes of the many files of a closed hour one for each node, sorted by session: less to open, and half the
bytes. An hour is compacted when its rollups are done and nothing has been recorded for it for a while. Its ledger row
is held meanwhile, and gets the new files' fingerprint; a crash between the new file and the removal of the old ones
leaves records that stand twice, which everybody who reads the lake counts once.

Retention removes samples first, then minutes, hours and, if that is wished, days; never what is yet to be computed.
Samples and events of an hour go when it and its day are done, and seal its row in the ledger. Hours go, lake and
database together, when their day is done. All goes by whole days (UTC): a day made anew from some of its hours would
lose the others."""

import logging
import re
import shutil
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from analytics import ledger, locks, tables
from analytics.jobs.partials import carry
from analytics.lake import quarantine
from analytics.ledger import DAY, HOUR, Hour
from analytics.locks import Lock, LockLost
from analytics.models import METRIC_VERSION, Grain, Partition, Rollup
from ingest.services.retention import in_pieces
from ingest.telemetry.lake import TABLES, fitting, hour_folder, publish_file

log = logging.getLogger(__name__)

CLOSED_AFTER = timedelta(hours=1)
"""After an hour's end: what is recorded later than that is late, and is a file of its own until the next time."""

SORTED_ROWS = 1_000_000
"""How much is sorted in memory at once, about 400 MB of samples."""

GROUP_ROWS = 65_536
"""Of a row group: what a reader that wants one session has to decode."""

NAME = re.compile(r"(?P<node>.+)-[^-]+-[^-]+$")
"""Of a node's file, without its suffix."""

NUMBER = "all"
"""In place of a compacted file's number."""

SORTED_BY = [("session", "ascending"), ("sequence", "ascending"), ("at_us", "ascending")]


def compactable(lake: Path, now: datetime) -> Iterator[datetime]:
    """Closed hours that are done and have more than one file of a node."""
    closed = Partition.objects.filter(
        grain=Grain.HOUR,
        state=Partition.State.DONE,
        metric_version=METRIC_VERSION,
        sealed_at=None,
        start__lte=now - HOUR - CLOSED_AFTER,
    )
    for start in closed.order_by("start").values_list("start", flat=True):
        hour = ledger.find_hour(lake, start)
        if hour and any(len(files) > 1 for files in _by_node(_paths(lake, hour)).values()):
            yield start


def compact(lake: Path, start: datetime) -> int:
    """Compacts an hour; how many files it has less. 0 also when another works on it, or has yet to.

    Raises LockLost; OSError, ArrowException for a file that can't be read or written: everything is then as it was.
    """
    lock = locks.hold(start)
    if lock is None:
        return 0
    try:
        hour, row = ledger.find_hour(lake, start), Partition.objects.get(grain=Grain.HOUR, start=start)
        if hour is None or row.fingerprint != hour.fingerprint(ledger.tail_before(start)):
            return 0  # Something has come that is yet to be computed.
        nodes = _by_node(_paths(lake, hour))
        kept = {file for (_, node), files in nodes.items() for file in _merge(node, files, lock, start)}
        after = ledger.find_hour(lake, start)
        if after is None or {*_paths(lake, after)} != kept:
            return 0  # Something has come meanwhile: the hour is computed again.
        carry(tables.partition_folder(lake, tables.PARTIALS, start), hour.files, after.files)
        lock.compacted(start, fingerprint=after.fingerprint(ledger.tail_before(start)), files=after.file_count)
        return hour.file_count - after.file_count
    finally:
        lock.give_back()


def _paths(lake: Path, hour: Hour) -> list[Path]:
    return [lake / path for path, _, _ in hour.files]


def _by_node(files: Sequence[Path]) -> dict[tuple[Path, str], list[Path]]:
    """{(folder, node): its files, in the order of their names}."""
    found: dict[tuple[Path, str], list[Path]] = defaultdict(list)
    for file in sorted(files):
        match = NAME.match(file.stem)
        found[file.parent, match["node"] if match else file.stem].append(file)
    return found


def _merge(node: str, files: Sequence[Path], lock: Lock, hour: datetime) -> list[Path]:
    """One file in place of the node's several; those that are there then."""
    if len(files) == 1:
        return list(files)
    start = files[0].stem.removeprefix(f"{node}-").partition("-")[0]
    merged = files[0].with_name(f"{node}-{start}-{NUMBER}.parquet")
    schema = next(table.schema for table in TABLES if table.name in merged.parts)
    with publish_file(merged) as out, pq.ParquetWriter(out, schema, compression="zstd") as writer:
        for rows in _runs(files, schema):
            writer.write_table(rows.sort_by(SORTED_BY), row_group_size=GROUP_ROWS)
            lock.renew()
    lock.require(hour)
    for file in files:
        if file != merged:
            file.unlink(missing_ok=True)
    return [merged]


def _runs(files: Sequence[Path], schema: pa.Schema) -> Iterator[pa.Table]:
    """What the files hold, in pieces that fit into memory."""
    gathered: list[pa.Table] = []
    for file in files:
        with pq.ParquetFile(file) as parquet:
            for batch in parquet.iter_batches(batch_size=SORTED_ROWS):
                gathered.append(fitting(batch, schema))
                if sum(table.num_rows for table in gathered) >= SORTED_ROWS:
                    yield pa.concat_tables(gathered)
                    gathered = []
    if gathered:
        yield pa.concat_tables(gathered)


State = Partition.State


@dataclass(frozen=True, slots=True)
class RetentionDays:
    """For how many days each grain is kept; 0: for ever."""

    samples: int
    minutes: int
    hours: int
    days: int


@dataclass(slots=True)
class Removed:
    """`set_aside`: files of the quarantine; `rows`: of the database."""

    sample_hours: int = 0
    set_aside: int = 0
    minute_days: int = 0
    hour_days: int = 0
    days: int = 0
    rows: int = 0


def remove_old(lake: Path, kept: RetentionDays, now: datetime) -> Removed:
    """Removes what is older than it should be and not needed any more. Repeating it does no harm. Raises OSError."""
    removed = Removed()
    if kept.samples:
        quarantine.set_aside_late(lake)
        days = {ledger.day_of(start) for start in ledger.scan(lake, until=_day_before(now, kept.samples))}
        removed.sample_hours = sum(_seal(lake, day) for day in sorted(days))
        removed.set_aside = quarantine.remove_old(lake, _day_before(now, kept.samples))
    if kept.minutes:
        removed.minute_days = _remove_days(lake, tables.PARTIALS, _day_before(now, kept.minutes))
    if kept.hours:
        before = _day_before(now, kept.hours)
        for day in _done_days(before):
            removed.rows += _remove_hours(lake, day)
            removed.hour_days += 1
    if kept.days:
        before = _day_before(now, kept.days)
        removed.rows += in_pieces(Rollup.objects.filter(grain=Grain.DAY, start__lt=before).order_by("start"))
        removed.days = _remove_days(lake, tables.DAY, before)
    return removed


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
                with suppress(OSError):  # It has another hour.
                    hour_folder(lake, table, start).parent.rmdir()
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
    removed = 0
    for folder in sorted(tables.table_folder(lake, table).glob("dt=????-??-??")):
        if datetime.strptime(folder.name, "dt=%Y-%m-%d").replace(tzinfo=UTC) < before:
            shutil.rmtree(folder, ignore_errors=True)
            removed += 1
    return removed


RUN_S = 600.0
"""What is left after so long is for the next time."""


def maintain_lake(lake: Path, now: datetime) -> None:
    hours, files = compact_closed(lake, now)
    kept = RetentionDays(
        settings.KEEP_SAMPLES_DAYS, settings.KEEP_MINUTES_DAYS, settings.KEEP_HOURS_DAYS, settings.KEEP_DAYS_DAYS
    )
    removed = remove_old(lake, kept, now)
    log.info(
        "Made %d files of the lake less in %d hours; removed the samples of %d hours, %d files that had been set "
        "aside, the minutes of %d days, the hours of %d days and %d days, and %d rows of the database.",
        files,
        hours,
        removed.sample_hours,
        removed.set_aside,
        removed.minute_days,
        removed.hour_days,
        removed.days,
        removed.rows,
    )


def compact_closed(lake: Path, now: datetime, *, run_s: float = RUN_S) -> tuple[int, int]:
    """How many hours were compacted, and how many files are less. An hour that can't be read is left as it is."""
    ends, hours, files = time.monotonic() + run_s, 0, 0
    for start in compactable(lake, now):
        if time.monotonic() > ends:
            break
        try:
            less = compact(lake, start)
        except (OSError, pa.ArrowException, LockLost) as error:
            log.error("The hour %s can't be compacted: %s", f"{start:%Y-%m-%d %H:%M}", error)
            continue
        hours, files = hours + bool(less), files + less
    return hours, files
