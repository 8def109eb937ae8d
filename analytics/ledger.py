"""What is in the lake, what of it is done, and what is still to do.

An hour is to do when its row does not say done, or when what it would be made from now (its files' names, sizes and
times of change, the tail of the hour before it, the metrics' version) is not what its row says. So late data, a
backfill, a retry and the first run are one path, and an hour that is computed twice gives the same rows. A day is to
do when its hours are not those that it was made from, and rests while it goes on. Who computes what is in
analytics.locks.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

from django.db.models import F, Q
from django.utils import timezone

from analytics.models import METRIC_VERSION, Grain, Partition, within
from analytics.schemas import HourInput, LakeFile
from ingest.telemetry.lake import hour_folder, table_folder

FOLDER = re.compile(r"dt=(\d{4})-(\d\d)-(\d\d)/hr=(\d\d)$")
TABLES = ("samples", "events")

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)

DAY_RESTS = timedelta(hours=6)
"""A day that goes on is made anew no more often, unless somebody asks for it: merging a day of many streams costs as
much as the hour that is new."""

FIRST_RETRY = timedelta(minutes=1)
LAST_RETRY = timedelta(hours=1)

BYTES_A_ROW = 25
"""Of a sample in Parquet, at least: how many rows an hour has, at most."""

State = Partition.State


@dataclass(frozen=True, slots=True)
class Hour(HourInput):
    """An hour as the lake holds it. `attempts`: times that it failed."""

    attempts: int = 0

    @property
    def file_count(self) -> int:
        return len(self.files)

    def fingerprint(self, tail: str) -> str:
        """Of what its rollups are made from. `tail`: of the hour before."""
        return _digest((*(f"{path} {size} {changed_ns}" for path, size, changed_ns in self.files), tail))

    def rows(self) -> int:
        """How many rows its files have, at most."""
        return sum(size for _, size, _ in self.files) // BYTES_A_ROW


@dataclass(frozen=True, slots=True)
class Day:
    """A day as its hours are. `digest`: of their fingerprints; `file_count`: theirs; `hour_rows`: of their rollups."""

    start: datetime
    digest: str
    file_count: int
    hour_rows: int
    attempts: int = 0

    def fingerprint(self, tail: str = "") -> str:
        """Of what its rollups are made from: days have no tails."""
        return self.digest

    def rows(self) -> int:
        return self.hour_rows


Work = Hour | Day
Either = TypeVar("Either", Hour, Day)


def backoff(attempts: int) -> timedelta:
    """How long what failed so many times waits."""
    return min(LAST_RETRY, FIRST_RETRY * 2 ** min(attempts - 1, 10)) if attempts > 0 else timedelta()


def due_at(partition: Partition) -> datetime | None:
    """When what is not done may be begun; None: at once. What somebody lost is left alone as if it had failed."""
    if partition.lock and partition.locked_until:
        return partition.locked_until + backoff(partition.attempts - 1)
    return partition.retry_at


def due(now: datetime) -> int:
    """How many hours and days are known to be undone, may be begun, and are nobody's work."""
    undone = Partition.objects.exclude(state=State.DONE).filter(free(now))
    return sum((due_at(partition) or now) <= now for partition in undone)


def free(now: datetime) -> Q:
    """Partitions that nobody computes."""
    return Q(lock="") | Q(locked_until__lt=now)


def scan(lake: Path, since: datetime | None = None, until: datetime | None = None) -> dict[datetime, Hour]:
    """The lake's hours within since <= hour < until, oldest first."""
    found = ((start, find_hour(lake, start)) for start in sorted(starts(lake, since, until)))
    return {start: hour for start, hour in found if hour}


def starts(lake: Path, since: datetime | None = None, until: datetime | None = None) -> set[datetime]:
    """Of the hours that have a folder, which may be empty: no file is looked at."""
    folders = (
        folder
        for table in TABLES
        for day in table_folder(lake, table).glob("dt=*")
        if _is_within(day.name, since, until)
        for folder in day.glob("hr=*")
    )
    found = {start for folder in folders if (start := start_of(folder))}
    return {start for start in found if (not since or start >= since) and (not until or start < until)}


def start_of(folder: Path) -> datetime | None:
    """Of the hour whose folder it is; None: of none."""
    match = FOLDER.search(folder.as_posix())
    return datetime(*map(int, match.groups()), tzinfo=UTC) if match else None  # type: ignore[misc, arg-type]


def _is_within(day: str, since: datetime | None, until: datetime | None) -> bool:
    """Whether a day's folder may hold hours of the time: no other is looked into."""
    return (not since or day >= f"dt={since.astimezone(UTC):%Y-%m-%d}") and (
        not until or day <= f"dt={until.astimezone(UTC):%Y-%m-%d}"
    )


def find_hour(lake: Path, start: datetime) -> Hour | None:
    """One hour as it is now; None: there are no files of it."""
    files = [file for table in TABLES for file in _files(lake, hour_folder(lake, table, start))]
    return Hour(start, tuple(files)) if files else None


class Hours:
    """The lake's hours of a time. It scans the lake once."""

    grain = Grain.HOUR

    def __init__(self, lake: Path, since: datetime | None = None, until: datetime | None = None) -> None:
        self._lake = lake
        self._found = scan(lake, since, until)

    @property
    def starts(self) -> list[datetime]:
        """Of all of them, oldest first."""
        return list(self._found)

    def pending(self, now: datetime | None = None) -> list[Hour]:
        """Those that are to do, oldest first. `now`: only what may be begun then."""
        rows = _rows_of(Grain.HOUR, self._found)
        pending = []
        for start, hour in self._found.items():
            before = rows.get(start - HOUR)
            pending += _if_pending(hour, rows.get(start), hour.fingerprint(before.tail if before else ""), now)
        return pending

    def find(self, start: datetime) -> Hour | None:
        """One of them as it is now; None: it is gone."""
        hour = find_hour(self._lake, start)
        if hour:
            self._found[start] = hour
        return hour


class Days:
    grain = Grain.DAY

    def __init__(self, since: datetime | None = None, until: datetime | None = None) -> None:
        self._since, self._until = since and day_of(since), until

    def pending(self, now: datetime | None = None) -> list[Day]:
        """Those of whose hours one or more were computed since they were, oldest first. `now`: as above."""
        found = _days(self._since, self._until)
        rows = _rows_of(Grain.DAY, found)
        return [
            one for start, day in found.items() for one in _if_pending(day, rows.get(start), day.fingerprint(), now)
        ]

    def find(self, start: datetime) -> Day | None:
        """One of them as its hours are now; None: it can't be computed."""
        return _days(start, start + DAY).get(start)


def note_pending(grain: Grain, starts: Iterable[datetime]) -> None:
    """Writes down that these are to do, and when: what happens to this process, others find it there."""
    wanted = set(starts)
    known = set(Partition.objects.filter(grain=grain, start__in=wanted).values_list("start", flat=True))
    Partition.objects.bulk_create(
        [Partition(grain=grain, start=start) for start in sorted(wanted - known)], ignore_conflicts=True
    )
    rows = Partition.objects.filter(grain=grain, start__in=wanted)
    rows.filter(state=State.DONE).update(state=State.PENDING, attempts=0)
    if grain == Grain.DAY:
        waiting, recent = rows.filter(state=State.PENDING, attempts=0), Q(start__gt=timezone.now() - DAY)
        waiting.filter(recent).update(retry_at=F("processed_at") + DAY_RESTS)
        waiting.exclude(recent).update(retry_at=None)


def resting(days: Iterable[datetime], now: datetime) -> set[datetime]:
    """Those of the days that are not made anew yet."""
    going_on = Partition.objects.filter(grain=Grain.DAY, start__in=set(days), start__gt=now - DAY)
    return set(going_on.filter(processed_at__gt=now - DAY_RESTS).values_list("start", flat=True))


def drop_gone(grain: Grain, there: Iterable[datetime], since: datetime | None, until: datetime | None) -> int:
    """Takes from what is to do that of which the lake holds nothing any more; how many."""
    undone = Partition.objects.exclude(state=State.DONE).filter(free(timezone.now()), grain=grain)
    undone = undone.filter(within(since and day_of(since) if grain == Grain.DAY else since, until))
    kept = set(there)
    gone = [partition.pk for partition in undone.only("start") if partition.start not in kept]
    if gone:
        rows = Partition.objects.filter(pk__in=gone)
        rows.filter(metric_version=0).delete()
        rows.update(state=State.DONE, attempts=0, retry_at=None, error="", lock="", locked_until=None)
    return len(gone)


def tail_before(start: datetime) -> str:
    """The digest of what the hour begins with."""
    before = Partition.objects.filter(grain=Grain.HOUR, start=start - HOUR)
    return before.values_list("tail", flat=True).first() or ""


def day_of(time: datetime) -> datetime:
    """The day (UTC) that it is in."""
    return time.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _days(since: datetime | None, until: datetime | None) -> dict[datetime, Day]:
    """The days whose hours have all been computed by the present metrics; others lack hours that are gone for ever."""
    end = until and day_of(until - timedelta(microseconds=1)) + DAY
    hours = Partition.objects.filter(within(since, end), grain=Grain.HOUR, metric_version__gt=0)
    days: dict[datetime, list[Partition]] = defaultdict(list)
    for hour in hours.order_by("start").only("start", "fingerprint", "metric_version", "rows_written"):
        days[day_of(hour.start)].append(hour)
    return {
        start: Day(
            start,
            _digest(f"{part.start:%H} {part.fingerprint}" for part in parts),
            file_count=len(parts),
            hour_rows=sum(part.rows_written for part in parts),
        )
        for start, parts in days.items()
        if all(part.metric_version == METRIC_VERSION for part in parts)
    }


def _rows_of(grain: Grain, found: Mapping[datetime, object]) -> dict[datetime, Partition]:
    """The ledger's rows of a time, and of the hour before it."""
    if not found:
        return {}
    rows = Partition.objects.filter(grain=grain, start__gte=min(found) - HOUR, start__lte=max(found))
    return {row.start: row for row in rows}


def _if_pending(work: Either, row: Partition | None, fingerprint: str, now: datetime | None) -> list[Either]:
    """The work, if there is something to do; with the number of times that it failed."""
    if row is None:
        return [work]
    if row.sealed_at:  # What has come since is not the whole of it.
        return []
    if row.state == State.DONE:
        is_done = row.metric_version == METRIC_VERSION and row.fingerprint == fingerprint
        return [] if is_done else [work]
    if now and (due_at(row) or now) > now:
        return []
    return [replace(work, attempts=row.attempts)]


def _files(lake: Path, folder: Path) -> Iterator[LakeFile]:
    """The files that the jobs would read."""
    for file in sorted(folder.glob("*.parquet")):
        if not file.name.startswith((".", "_")):
            with suppress(FileNotFoundError):  # Compaction has just made one file of several.
                status = file.stat()
                yield (str(file.relative_to(lake)), status.st_size, status.st_mtime_ns)


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
