"""Hours and days of figures: which files they are made from, in which order, and where what is made of them is written.

Spark reads the lake's files, counts events and merges hours; what comes of it are few rows, which this process writes,
one file for each table and hour.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from analytics.jobs import schemas
from analytics.jobs.arrow import spread
from analytics.jobs.days import DayTask, of_day
from analytics.jobs.dimensions import OF
from analytics.jobs.events import happened_in_days, happened_in_hours
from analytics.jobs.hours import HourTask, of_hour
from analytics.jobs.minutes import concatenated
from analytics.jobs.partials import read_part
from analytics.jobs.rollups import rollups
from analytics.jobs.scanning import Scanned, scan
from analytics.jobs.sessions import TAIL_US, session_hours
from analytics.tables import DAY, HOUR, SESSION_HOURS, figures_file
from analytics.work import Computed, HourInput

HOUR_LENGTH = timedelta(hours=1)

COLUMNS = {SESSION_HOURS: schemas.SESSION_HOURS, HOUR: schemas.ROLLUPS, DAY: schemas.ROLLUPS}

FEW_ROWS = 20_000
"""Of fewer rows Spark takes longer to compile the transforms than to interpret them, and longer to divide them and to
look at what came of each part than to do them in one.
"""
FEW_MINUTES = 100_000
"""Hours of fewer minutes of sessions, some 1,500 streams for an hour, are merged by this process;"""
FEW_ROLLUPS = 50_000
"""and days of fewer rollups of hours."""

DIMENSIONS = {dimension.value: of for dimension, of in OF.items()}
"""By their names: to a worker of Spark no class of ours is known."""

ROWS_TOGETHER = 500
"""Of a file, in a row group: rows are in order, so who looks for one stream reads these, not the hour."""

SUITED = {
    "spark.sql.codegen.wholeStage": ("false", "true"),
    "spark.sql.codegen.factoryMode": ("NO_CODEGEN", "FALLBACK"),
    "spark.sql.shuffle.partitions": ("1", "4"),
}
"""Settings of a session: for few rows, and for many."""


def compute_hours(session: SparkSession, lake: Path, hours: Sequence[HourInput], out: Path) -> dict[datetime, Computed]:
    """Computes hours that follow one another, oldest first. Raises OSError."""
    scanned = scan(session, lake, hours)
    first = hours[0].start
    tail = tail_of(lake, first - HOUR_LENGTH)
    starts = [hour.start for hour in hours]
    _merge_hours(session, lake, scanned, tail, out)
    return {start: _computed(out, HOUR, start, scanned[start], _digest(tail_of(out, start))) for start in starts}


def compute_days(session: SparkSession, lake: Path, days: Sequence[datetime], out: Path) -> dict[datetime, Computed]:
    """Computes days from their hours as they are in the lake. Raises OSError."""
    hours, sessions = ({day: _files_of(lake, table, day) for day in days} for table in (HOUR, SESSION_HOURS))
    rows = {day: _rows(hours[day]) for day in days}
    few = sum(rows.values()) < FEW_ROLLUPS
    _suit(session, sum(rows.values()))
    of_hours = _parquet(session, chain.from_iterable(hours.values()), schemas.HAPPENED_IN)
    happened = _counted(happened_in_days(of_hours))
    tasks: list[DayTask] = [
        {
            "start_us": _micros(day),
            "dimensions": dimensions,
            "hours": [str(file) for file in hours[day]],
            "session_hours": [str(file) for file in sessions[day]],
        }
        for day in days
        for dimensions in ([DIMENSIONS] if few else [{name: of} for name, of in DIMENSIONS.items()])
        if rows[day]
    ]
    groups = spread(session, tasks, of_day, schemas.GROUPS, here=few)
    _write(rollups(groups, happened), DAY, days, out)
    return {day: _computed(out, DAY, day, Scanned(rows=rows[day], read=rows[day])) for day in days}


def tail_of(root: Path, hour: datetime) -> pa.Table:
    """What the next hour begins with (schemas.TAIL), in a fixed order. `root`: of the lake, or of what is computed."""
    end_us = _micros(hour + HOUR_LENGTH)
    columns = ["app", "name", "session", "last_us", "broadcast_us"]
    rows = _read(figures_file(root, SESSION_HOURS, hour), columns)
    if rows is None:
        return schemas.arrow(schemas.TAIL).empty_table()
    late = rows.filter(pc.greater_equal(rows["last_us"], end_us - TAIL_US))
    late = late.sort_by([(name, "ascending") for name in ("app", "name", "last_us", "broadcast_us", "session")])
    streams = late.group_by(["app", "name"], use_threads=False).aggregate(
        [("last_us", "last"), ("broadcast_us", "last")]
    )
    of_streams = streams.rename_columns(["app", "name", "last_us", "broadcast_us"])
    of_streams = of_streams.append_column("session", pa.repeat("", of_streams.num_rows))
    of_sessions = late.group_by(["app", "name", "session"], use_threads=False).aggregate([("broadcast_us", "last")])
    of_sessions = of_sessions.rename_columns(["app", "name", "session", "broadcast_us"])
    of_sessions = of_sessions.append_column("last_us", pa.nulls(of_sessions.num_rows, pa.int64()))
    return pa.concat_tables(schemas.cast(part, schemas.TAIL) for part in (of_streams, of_sessions)).sort_by(
        [(name, "ascending") for name in ("app", "name", "session")]
    )


def _merge_hours(
    session: SparkSession, lake: Path, scanned: Mapping[datetime, Scanned], tail: pa.Table, out: Path
) -> None:
    starts = list(scanned)
    folders = [folder for one in scanned.values() for folder in one.folders]

    def files(table: str) -> list[Path]:
        return [folder / f"{table}.parquet" for folder in folders]

    sessions = concatenated(map(read_part, files("sessions")), schemas.SESSIONS)
    _write(session_hours(sessions, tail, _given(lake, starts)), SESSION_HOURS, starts, out)
    written = {start: figures_file(out, SESSION_HOURS, start) for start in starts}
    _suit(session, _rows(files("events")))
    happened = happened_in_hours(
        _parquet(session, written.values(), schemas.SESSION_HOURS),
        _parquet(session, files("events"), schemas.EVENTS),
        session.createDataFrame(tail, schemas.ddl(schemas.TAIL)),
        _micros(starts[0]),
    )
    tasks: list[HourTask] = [
        {
            "start_us": _micros(start),
            "dimensions": DIMENSIONS,
            "session_hours": str(written[start]),
            "partials": [str(folder) for folder in scanned[start].folders],
        }
        for start in starts
        if written[start].exists()
    ]
    groups = spread(session, tasks, of_hour, schemas.GROUPS, here=_rows(files("minutes")) < FEW_MINUTES)
    _write(rollups(groups, _counted(happened)), HOUR, starts, out)


def _given(lake: Path, starts: Sequence[datetime]) -> pa.Table:
    """The broadcasts (schemas.GIVEN) that the hours' sessions keep: those from which a later hour has gone on."""
    following = starts[-1] + HOUR_LENGTH
    columns = ["session", "broadcast_us"]
    found = [schemas.arrow(schemas.GIVEN).empty_table()]
    later = _read(figures_file(lake, SESSION_HOURS, following), columns)
    for start in starts if later is not None else ():
        own = _read(figures_file(lake, SESSION_HOURS, start), columns)
        known = pa.concat_tables([part for part in (own, later if start == starts[-1] else None) if part is not None])
        named = known.group_by("session", use_threads=False).aggregate([("broadcast_us", "first")])
        named = named.rename_columns(columns).append_column("start_us", pa.repeat(_micros(start), named.num_rows))
        found.append(schemas.cast(named, schemas.GIVEN))
    return pa.concat_tables(found)


def _computed(out: Path, table: str, start: datetime, scanned: Scanned, tail: str = "") -> Computed:
    return Computed(
        rows=scanned.rows,
        rows_read=scanned.read,
        rows_written=_rows([figures_file(out, table, start)]),
        tail=tail,
        strays=scanned.strays,
        damaged=scanned.damaged,
    )


def _suit(session: SparkSession, rows: int) -> None:
    """Makes the session do so many rows in the way that is the faster one for them."""
    for name, values in SUITED.items():
        session.conf.set(name, values[rows >= FEW_ROWS])


def _micros(time: datetime) -> int:
    return int(time.timestamp()) * 1_000_000


def _parquet(session: SparkSession, files: Iterable[Path], columns: schemas.Columns) -> DataFrame:
    """A column that older files lack is null."""
    there = [str(file) for file in files if file.exists()]
    if not there:
        return session.createDataFrame(schemas.arrow(columns).empty_table(), schemas.ddl(columns))
    return session.read.schema(schemas.ddl(columns)).parquet(*there)


def _counted(happened: DataFrame) -> pa.Table:
    """Has Spark count it."""
    return schemas.cast(happened.toArrow(), schemas.HAPPENED_IN)


def _write(rows: pa.Table, table: str, starts: Sequence[datetime], out: Path) -> None:
    """One file for each start that has rows, in a fixed order."""
    by = ["start_us", "session", "first_us"] if table == SESSION_HOURS else list(schemas.GROUP)
    rows = rows.sort_by([(name, "ascending") for name in by])
    for start in starts:
        own = rows.filter(pc.equal(rows["start_us"], _micros(start)))
        if own.num_rows:
            file = figures_file(out, table, start)
            file.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(own, file, compression="zstd", row_group_size=ROWS_TOGETHER)


def _read(file: Path, columns: Sequence[str]) -> pa.Table | None:
    return pq.ParquetFile(file).read(columns=list(columns)).select(list(columns)) if file.exists() else None


def _digest(tail: pa.Table) -> str:
    """ "" of none, as after an hour of which nothing was recorded."""
    lines = (repr(tuple(row.values())) for row in tail.to_pylist())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest() if tail.num_rows else ""


def _files_of(lake: Path, table: str, day: datetime) -> list[Path]:
    """Those of its hours that are there."""
    starts = (day + number * HOUR_LENGTH for number in range(24))
    return [file for start in starts if (file := figures_file(lake, table, start)).exists()]


def _rows(files: Iterable[Path]) -> int:
    """By their footers."""
    return sum(pq.read_metadata(file).num_rows for file in files if file.exists())
