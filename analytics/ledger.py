"""What is in the lake, what of it is done, and what is still to do.

An hour is to do when its files' names and sizes, or the metrics' version, differ from what its row says. So late data,
a backfill, a retry and the first run are one path, and an hour that is computed twice gives the same rows.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
from django.utils import timezone

from analytics.models import METRIC_VERSION, AnalyticsRun, Grain, Partition
from ingest.telemetry.lake import table_folder

FOLDER = re.compile(r"dt=(\d{4})-(\d\d)-(\d\d)/hr=(\d\d)$")


@dataclass(frozen=True)
class Work:
    """An hour or a day to compute: from which files, and the fingerprint that its row gets."""

    grain: Grain
    start: datetime
    fingerprint: str
    files: tuple[Path, ...] = ()

    def rows(self) -> int:
        """How many rows the files have, by their footers."""
        return sum(pq.read_metadata(file).num_rows for file in self.files)


def pending_hours(lake: Path, since: datetime | None = None, until: datetime | None = None) -> list[Work]:
    """The hours of the lake's samples that are new or changed, oldest first, within since <= hour < until."""
    found = [work for work in _scan(lake) if (not since or work.start >= since) and (not until or work.start < until)]
    return _changed(Grain.HOUR, found)


def pending_days(since: datetime | None = None, until: datetime | None = None) -> list[Work]:
    """The days of whose hours one or more were computed since the day was, oldest first."""
    hours: dict[datetime, list[tuple[datetime, str]]] = defaultdict(list)
    done = Partition.objects.filter(grain=Grain.HOUR, metric_version=METRIC_VERSION)
    for start, fingerprint in done.order_by("start").values_list("start", "fingerprint"):
        day = start.replace(hour=0)
        if (not since or day >= since.replace(hour=0, minute=0, second=0, microsecond=0)) and (
            not until or day < until
        ):
            hours[day].append((start, fingerprint))
    return _changed(
        Grain.DAY,
        [
            Work(Grain.DAY, day, _digest(f"{start:%H} {fingerprint}" for start, fingerprint in parts))
            for day, parts in sorted(hours.items())
        ],
    )


def record(run: AnalyticsRun, work: Work, *, rows_read: int, rows_written: int) -> None:
    """Notes that the work is done. To be called last: what is not noted is done again."""
    Partition.objects.update_or_create(
        grain=work.grain,
        start=work.start,
        defaults={
            "fingerprint": work.fingerprint,
            "metric_version": METRIC_VERSION,
            "files": len(work.files),
            "rows_read": rows_read,
            "rows_written": rows_written,
            "run": run,
            "processed_at": timezone.now(),
        },
    )


def _scan(lake: Path) -> list[Work]:
    hours = []
    for folder in sorted(table_folder(lake, "samples").glob("dt=*/hr=*")):
        match = FOLDER.search(folder.as_posix())
        if not match:
            continue
        year, month, day, hour = map(int, match.groups())
        files = sorted(file for file in folder.glob("*.parquet") if not file.name.startswith((".", "_")))
        if files:
            fingerprint = _digest(f"{file.name} {file.stat().st_size}" for file in files)
            hours.append(Work(Grain.HOUR, datetime(year, month, day, hour, tzinfo=UTC), fingerprint, tuple(files)))
    return hours


def _changed(grain: Grain, found: list[Work]) -> list[Work]:
    known = Partition.objects.filter(grain=grain, metric_version=METRIC_VERSION)
    done = dict(known.values_list("start", "fingerprint"))
    return [work for work in found if done.get(work.start) != work.fingerprint]


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
