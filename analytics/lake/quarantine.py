"""What of the lake can't count is set aside, and counted: it disturbs nothing more, and nothing is lost.

    LAKE/quarantine/damaged/    files that can't be read: their hour is computed without them, and is said to lack them
    LAKE/quarantine/late/       what came for an hour after it was sealed
    LAKE/quarantine/undated/    hours of before 2020, or of more than a day ahead: of a clock that was not set

Below it a file has the path that it had in the lake; whoever has repaired one moves it back. It is there for as long as
samples are kept: its time of change is when it was set aside.
"""

import os
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

from django.db.models import F

from analytics import ledger, tables
from analytics.loading import TABLES
from analytics.models import Grain, Partition, Rollup
from analytics.schemas import LakeFile
from ingest.telemetry.lake import hour_folder
from ingest.telemetry.writer import AHEAD_S, EARLIEST

DAMAGED, LATE, UNDATED = "damaged", "late", "undated"

AHEAD = timedelta(seconds=AHEAD_S)


def set_aside(lake: Path, path: str, why: str) -> None:
    """Moves a file (`path` below the lake). One that has gone meanwhile is none. Raises OSError."""
    target = lake / "quarantine" / why / path
    if (lake / path).exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        (lake / path).replace(target)
        os.utime(target)


def damaged_files(lake: Path, start: datetime) -> int:
    aside = lake / "quarantine" / DAMAGED
    return sum(len(list(hour_folder(aside, table, start).glob("*.parquet"))) for table in ledger.TABLES)


def remove_old(lake: Path, before: datetime) -> int:
    """Removes what was set aside before that; how many files. Not damaged ones of an hour that the lake still has: it
    may be computed anew, and counts them.
    """
    removed = 0
    for why in (DAMAGED, LATE, UNDATED):
        aside = lake / "quarantine" / why
        for file in [file for file in aside.rglob("*") if file.is_file()]:
            if file.stat().st_mtime < before.timestamp() and not (why == DAMAGED and _has_hour(lake, file.parent)):
                file.unlink(missing_ok=True)
                removed += 1
        _remove_empty(aside)
    return removed


def _has_hour(lake: Path, aside: Path) -> bool:
    """Whether the lake has files of the hour whose folder this is in the quarantine."""
    start = ledger.start_of(aside)
    return start is not None and ledger.find_hour(lake, start) is not None


def _remove_empty(folder: Path) -> None:
    """Those below it that hold nothing, and itself."""
    below = sorted((each for each in folder.rglob("*") if each.is_dir()), reverse=True)
    for each in (*below, folder):
        with suppress(OSError):  # It is not empty.
            each.rmdir()


def set_aside_undated(lake: Path, now: datetime) -> int:
    """Sets hours aside that can't be, and takes what was made of them out of history; how many."""
    hours = [*ledger.scan(lake, until=EARLIEST).values(), *ledger.scan(lake, since=now + AHEAD).values()]
    for hour in hours:
        for path, _, _ in hour.files:
            set_aside(lake, path, UNDATED)
    for grain in Grain:
        rows = {"grain": grain}
        for bound in ({"start__lt": EARLIEST}, {"start__gt": now + AHEAD}):
            for start in Partition.objects.filter(**rows, **bound).values_list("start", flat=True):
                for table in TABLES[grain]:
                    tables.figures_file(lake, table, start).unlink(missing_ok=True)
            Rollup.objects.filter(**rows, **bound).delete()
            Partition.objects.filter(**rows, **bound).delete()
    return len(hours)


def set_aside_late(lake: Path) -> int:
    """Sets aside what came for hours that are sealed, and counts it there; how many records."""
    late = 0
    sealed = set(Partition.objects.filter(grain=Grain.HOUR, sealed_at__isnull=False).values_list("start", flat=True))
    for start in sorted(sealed & ledger.starts(lake)):
        if hour := ledger.find_hour(lake, start):
            rows = sum(_rows(lake, file) for file in hour.files)
            for path, _, _ in hour.files:
                set_aside(lake, path, LATE)
            Partition.objects.filter(grain=Grain.HOUR, start=start).update(late_rows=F("late_rows") + rows)
            late += rows
    return late


def _rows(lake: Path, file: LakeFile) -> int:
    import pyarrow as pa  # Loaded only where it is used: seldom.
    import pyarrow.parquet as pq

    try:
        rows: int = pq.read_metadata(lake / file[0]).num_rows
    except (OSError, pa.ArrowException):
        rows = file[1] // ledger.BYTES_A_ROW
    return rows
