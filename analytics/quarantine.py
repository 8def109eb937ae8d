"""What of the lake can't count is set aside, and counted: it disturbs nothing more, and nothing is lost.

    LAKE/quarantine/damaged/    files that can't be read: their hour is computed without them, and is said to lack them
    LAKE/quarantine/late/       what came for an hour after it was sealed
    LAKE/quarantine/undated/    hours of before 2020, or of more than a day ahead: of a clock that was not set

Below it a file has the path that it had in the lake; whoever has repaired one moves it back.
"""

from datetime import datetime, timedelta
from pathlib import Path

from django.db.models import F

from analytics import ledger, tables
from analytics.models import Grain, Partition, Rollup
from analytics.publishing import TABLES
from analytics.work import LakeFile
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


def damaged_files(lake: Path, start: datetime) -> int:
    """How many of an hour's files were set aside as damaged."""
    aside = lake / "quarantine" / DAMAGED
    return sum(len(list(hour_folder(aside, table, start).glob("*.parquet"))) for table in ledger.TABLES)


def set_aside_undated(lake: Path, now: datetime) -> int:
    """Sets hours aside that can't be, and takes what was made of them out of history; how many."""
    hours = [*ledger.scan(lake, until=EARLIEST).values(), *ledger.scan(lake, since=now + AHEAD).values()]
    for hour in hours:
        for path, _, _ in hour.input.files:
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
        if hour := ledger.look(lake, start):
            rows = sum(_rows(lake, file) for file in hour.input.files)
            for path, _, _ in hour.input.files:
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
