"""Brings what a run has computed into the lake and the database, in place of what was there, while its lock is held.

Spark writes into a folder of the run's own below `rollups/.work`, which readers pass over. Renaming is done inside the
transaction that makes sure of the lock, so that a run which stood still, and whose work another has done since, can't
put its older result in place of that. What a killed run leaves is removed by a later one.

The database's rows go into a temporary table first, which no other connection knows of and for which nobody waits. One
short transaction then brings into line with it what all read: a page has the whole hour as it was, or as it is. SQLite
has one writer, whom encoders wait for, so who stages rows there is not that writer yet."""

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from analytics import tables
from analytics.histograms import packed
from analytics.locks import Lock, LockLost
from analytics.models import IDENTITY, METRIC_VERSION, Dimension, Grain, Partition, Rollup
from analytics.tables import COUNTERS, RENAMED, figures_file, values_of
from ingest.disk import sync
from ingest.models import Stream

TABLES = {Grain.HOUR: tables.OF_HOURS, Grain.DAY: (tables.DAY,)}
"""What is computed of an hour and of a day."""


@contextmanager
def work_folder(lake: Path, lock: Lock) -> Iterator[Path]:
    folder = _work(lake) / lock.token
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def publish(lake: Path, out: Path, lock: Lock, start: datetime) -> None:
    """Puts an hour or a day that was computed below `out` into the lake. Raises LockLost, and OSError.

    Each table's one file takes the place of the former one at a stroke: a reader finds this or that, never none.
    """
    files = [(figures_file(out, table, start), figures_file(lake, table, start)) for table in TABLES[lock.grain]]
    for new, old in files:
        if new.exists():
            sync(new)  # What the ledger calls done survives a loss of power.
            old.parent.mkdir(parents=True, exist_ok=True)
    with transaction.atomic():
        lock.require(start)
        for new, old in files:
            if new.exists():
                new.replace(old)
            else:  # Nothing was written: it has no rows.
                old.unlink(missing_ok=True)
    for _, old in files:  # Others write to the database meanwhile: a disk may take seconds over it.
        if old.exists():
            sync(old.parent)


def clear(lake: Path) -> None:
    """Removes what runs have left that were killed: the folders of locks that nobody holds."""
    for folder in _work(lake).glob("*"):
        if not Partition.objects.filter(lock=folder.name, locked_until__gte=timezone.now()).exists():
            shutil.rmtree(folder, ignore_errors=True)


def _work(lake: Path) -> Path:
    return lake / "rollups" / ".work"


# ruff: noqa: S608 (nothing in the texts but names of tables and columns)


BATCH = 1000
"""Rows that are in memory at once: of an hour with many streams there are too many for it."""

STAGED = "staged_rollups"
"""The temporary table, each connection's own: the rollups' columns but for the key, which the database gives."""

Row = tuple[object, ...]


def load(lake: Path, grain: Grain, start: datetime, still_ours: Callable[[], bool]) -> int:
    """Makes the database's rows of an hour or a day equal to the lake's; how many there are. Of an hour these are the
    dimensions of HOURS_IN_DATABASE, and the ledger notes which others are in the lake alone.

    Raises LockLost if `still_ours` says, within the transaction that changes them, that another has taken the work up.
    After it and any other error, such as DatabaseError and OSError, they are as they were. It begins a transaction of
    its own, and is not to be called within another.
    """
    stage, replace = partial(_stage, lake, grain, start), partial(_replace, grain, start, still_ours)
    return DATABASES[connection.vendor].load(stage, replace)


def _stage(lake: Path, grain: Grain, start: datetime) -> int:
    """Fills the temporary table; how many rows it has."""
    database, count = DATABASES[connection.vendor], 0
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS {STAGED}")
        cursor.execute(f"{database.create} AS SELECT {_names(COLUMNS)} FROM {TABLE} WHERE false")
        for rows in _read(figures_file(lake, grain, start), grain):
            database.fill(cursor, rows)
            count += len(rows)
        cursor.execute(f"CREATE UNIQUE INDEX {STAGED}_once ON {STAGED} ({_names(IDENTITY)})")
        cursor.execute(f"ANALYZE {STAGED}")  # Else PostgreSQL compares each row with each, for half an hour.
    return count


def _replace(grain: Grain, start: datetime, still_ours: Callable[[], bool]) -> None:
    """What all read becomes what is staged: within a transaction, which it may not make long."""
    if not still_ours():
        raise LockLost
    with connection.cursor() as cursor:
        cursor.execute(UPSERT.format(differs=DATABASES[connection.vendor].differs))
        cursor.execute(DELETE, [grain, connection.ops.adapt_datetimefield_value(start)])
    if grain == Grain.HOUR:
        others = [dimension for dimension in Dimension if dimension not in settings.HOURS_IN_DATABASE]
        Partition.objects.filter(grain=grain, start=start).update(lake_only=",".join(others))


# From Parquet ------------------------------------------------------------


def _read(file: Path, grain: Grain) -> Iterator[list[Row]]:
    """The rows as the database takes them, with the values of COLUMNS."""
    import pyarrow.dataset as ds  # With it comes pandas: a run that finds nothing to do goes without.

    of_all: dict[str, object] = {"grain": str(grain), "metric_version": METRIC_VERSION}
    read = [field for field in FIELDS if field not in of_all]
    if not file.exists():
        return
    wanted = ds.field("dimension").isin(settings.HOURS_IN_DATABASE) if grain == Grain.HOUR else None
    columns = [RENAMED.get(field, field) for field in read]
    batches = ds.dataset(str(file), format="parquet").to_batches(
        columns=columns, filter=wanted, batch_size=BATCH, batch_readahead=1, use_threads=False
    )
    for batch in batches:
        values: dict[str, Iterable[object]] = {field: repeat(value, batch.num_rows) for field, value in of_all.items()}
        for field in read:
            column = batch.column(RENAMED.get(field, field))
            cells: list[Any] = packed(column) if field == "video_histogram" else values_of(field, column)
            cells = _there(cells) if field == "stream" else cells
            values[field] = map(CONVERTERS[field], cells) if field in CONVERTERS else cells
        yield list(zip(*(values[field] for field in FIELDS), strict=True))


def _there(column: list[int | None]) -> list[object]:
    """The streams; NULL for those whose row has been deleted since."""
    wanted = {stream for stream in column if stream is not None}
    there = set(Stream.objects.filter(pk__in=wanted).values_list("pk", flat=True))
    return [stream if stream in there else None for stream in column]


CONVERTERS: dict[str, Callable[[Any], object]] = {
    **dict.fromkeys(RENAMED, lambda at: connection.ops.adapt_datetimefield_value(at)),
    **dict.fromkeys(COUNTERS, lambda counts: connection.ops.adapt_json_value(counts, None)),
    "players_sketch": lambda sketch: sketch or b"",
}
"""Fields whose values the database takes in another form."""


# To the database ------------------------------------------------------------


def _names(columns: Sequence[str], of: str = "") -> str:
    return ", ".join(f"{of}{column}" for column in columns)


TABLE = Rollup._meta.db_table
FIELDS = {field.name: str(field.column) for field in Rollup._meta.concrete_fields if not field.primary_key}
"""{a field's name: its column}."""
COLUMNS = [*FIELDS.values()]
FIGURES = [column for column in COLUMNS if column not in IDENTITY]

UPSERT = f"""
INSERT INTO {TABLE} ({_names(COLUMNS)}) SELECT {_names(COLUMNS)} FROM {STAGED} WHERE true
ON CONFLICT ({_names(IDENTITY)}) DO UPDATE SET {", ".join(f"{column} = excluded.{column}" for column in FIGURES)}
WHERE ({_names(FIGURES, f"{TABLE}.")}) {{differs}} ({_names(FIGURES, "excluded.")})
"""
"""Rows that are as they were are not written: most are, when late data have an hour computed again."""

DELETE = f"""
DELETE FROM {TABLE} WHERE grain = %s AND start = %s AND NOT EXISTS (
SELECT 1 FROM {STAGED} WHERE {" AND ".join(f"{STAGED}.{column} = {TABLE}.{column}" for column in IDENTITY)})
"""


def _within(stage: Callable[[], int], replace: Callable[[], None]) -> int:
    """All in one transaction: on PostgreSQL nobody waits for who fills a temporary table, which goes with it."""
    with transaction.atomic(durable=True):
        count = stage()
        replace()
    return count


def _before(stage: Callable[[], int], replace: Callable[[], None]) -> int:
    """Each row that is staged by itself, as a transaction of ours begins by locking SQLite's database."""
    try:
        count = stage()
        with transaction.atomic(durable=True):
            replace()
    finally:
        # What remains nevertheless is nobody else's, and dropped by the next.
        with suppress(DatabaseError), connection.cursor() as cursor:
            cursor.execute(f"DROP TABLE IF EXISTS {STAGED}")
    return count


def _copy(cursor: Any, rows: list[Row]) -> None:
    # Django knows nothing of COPY, and would let psycopg's own errors go up.
    with connection.wrap_database_errors, cursor.copy(f"COPY {STAGED} FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)


def _insert(cursor: Any, rows: list[Row]) -> None:
    cursor.executemany(f"INSERT INTO {STAGED} VALUES ({_names(['%s'] * len(COLUMNS))})", rows)


@dataclass(frozen=True, slots=True)
class _Database:
    load: Callable[[Callable[[], int], Callable[[], None]], int]
    create: str
    fill: Callable[[Any, list[Row]], None]
    differs: str
    """The operator of two rows, NULL being equal to NULL."""


DATABASES = {
    "sqlite": _Database(_before, f"CREATE TEMP TABLE {STAGED}", _insert, "IS NOT"),
    "postgresql": _Database(_within, f"CREATE TEMP TABLE {STAGED} ON COMMIT DROP", _copy, "IS DISTINCT FROM"),
}
