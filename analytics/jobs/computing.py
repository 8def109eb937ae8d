"""Hours and days from the lake's files: what the transforms are given, and where what they make is written.

See analytics.work for the folders. Each table is written before the next reads it, so that nothing is computed twice.
"""

import hashlib
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from analytics import tables
from analytics.jobs import schemas
from analytics.jobs.days import days as days_of
from analytics.jobs.events import happened
from analytics.jobs.hours import hours as hours_of
from analytics.jobs.minutes import doubtful, each_once, minutes
from analytics.jobs.periods import DAY_US, start_of, text_of
from analytics.jobs.sessions import TAIL_US, session_hours
from analytics.jobs.sketches import sketches
from analytics.jobs.sql import listed, named, query
from analytics.tables import DAY, HOUR, MINUTES, SESSION_HOURS
from analytics.work import Computed, HourInput
from ingest.telemetry.lake import table_folder as nodes_table

SCHEMAS = {
    MINUTES: schemas.MINUTES,
    SESSION_HOURS: schemas.SESSION_HOURS,
    HOUR: schemas.ROLLUPS,
    DAY: schemas.ROLLUPS,
}

HOUR_LENGTH = timedelta(hours=1)

FEW_ROWS = 200_000
"""Of fewer, Spark takes longer to compile the transforms (cold: 10 s) than to interpret them, and longer to divide them
and to look at what came of each part than to do them in one.
"""

SUITED = {
    "spark.sql.codegen.wholeStage": ("false", "true"),
    "spark.sql.codegen.factoryMode": ("NO_CODEGEN", "FALLBACK"),
    "spark.sql.shuffle.partitions": ("1", "4"),
    "spark.sql.adaptive.enabled": ("false", "true"),
}
"""Settings of a session: for few rows, and for many."""


def compute_hours(session: SparkSession, lake: Path, hours: Sequence[HourInput], out: Path) -> dict[datetime, Computed]:
    """Computes hours that follow one another, oldest first."""
    rows = {hour.start: _rows((*hour.samples, *hour.events)) for hour in hours}
    _suit(session, sum(rows.values()))
    first, last = hours[0].start, hours[-1].start
    within = f"at_us BETWEEN {_micros(first)} AND {_micros(last + HOUR_LENGTH) - 1}"
    events = happened(_files(session, [file for hour in hours for file in hour.events], schemas.EVENTS).where(within))
    samples = _files(session, [file for hour in hours for file in hour.samples], schemas.SAMPLES).where(within)
    former = session.createDataFrame(_tail(lake, first - HOUR_LENGTH), schemas.TAIL)

    def written(table: str) -> DataFrame:
        folders = [tables.partition_folder(out, table, hour.start) for hour in hours]
        return _partitions(session, folders, SCHEMAS[table])

    _write(minutes(samples), out, MINUTES)
    twice = doubtful(written(MINUTES)).toArrow()
    if twice.num_rows:
        samples = each_once(samples, session.createDataFrame(twice))
        _write(minutes(samples), out, MINUTES)
    _write(session_hours(written(MINUTES), sketches(samples), former), out, SESSION_HOURS)
    _write(hours_of(written(SESSION_HOURS), written(MINUTES), events, former), out, HOUR)
    return {
        hour.start: Computed(
            rows_read=rows[hour.start],
            rows_written=_rows(tables.partition_folder(out, HOUR, hour.start).glob("*.parquet")),
            tail=_digest(_tail(out, hour.start)),
        )
        for hour in hours
    }


def compute_days(session: SparkSession, lake: Path, days: Sequence[datetime], out: Path) -> dict[datetime, Computed]:
    """Computes days from their hours as they are in the lake."""
    rows = {day: _rows(tables.day_folder(lake, HOUR, day).glob("hr=*/*.parquet")) for day in days}
    _suit(session, sum(rows.values()))

    def hours_of_days(table: str) -> DataFrame:
        folders = [hour for day in days for hour in tables.day_folder(lake, table, day).glob("hr=*")]
        return _partitions(session, folders, SCHEMAS[table])

    files = [file for day in days for file in (nodes_table(lake, "events") / f"dt={day:%Y-%m-%d}").glob("hr=*/[!._]*")]
    events = _files(session, files, schemas.EVENTS)
    within = f"{start_of('at_us', DAY_US)} IN ({listed(str(_micros(day)) for day in days)})"
    _write(days_of(hours_of_days(HOUR), hours_of_days(SESSION_HOURS), happened(events.where(within))), out, DAY)
    return {
        day: Computed(
            rows_read=rows[day],
            rows_written=_rows(tables.partition_folder(out, DAY, day).glob("*.parquet")),
        )
        for day in days
    }


def _suit(session: SparkSession, rows: int) -> None:
    """Makes the session do so many rows in the way that is the faster one for them."""
    for name, values in SUITED.items():
        session.conf.set(name, values[rows >= FEW_ROWS])


def _micros(time: datetime) -> int:
    return int(time.timestamp()) * 1_000_000


def _files(session: SparkSession, files: Sequence[Path], schema: StructType) -> DataFrame:
    """A column that older files lack is null."""
    if not files:
        return session.createDataFrame(to_arrow_schema(schema).empty_table(), schema)
    return session.read.schema(schema).parquet(*map(str, files))


def _partitions(session: SparkSession, folders: Iterable[Path], schema: StructType) -> DataFrame:
    return _files(session, [folder for folder in folders if folder.exists()], schema)


def _tail(root: Path, hour: datetime) -> pa.Table:
    """What the next hour begins with (schemas.TAIL). Few rows: they are read here, not by a Spark job."""
    columns = schemas.TAIL.fieldNames()
    files = sorted(tables.partition_folder(root, SESSION_HOURS, hour).glob("*.parquet"))
    parts = [pq.ParquetFile(file).read(columns=columns).select(columns) for file in files]
    rows = pa.concat_tables(parts) if parts else to_arrow_schema(schemas.TAIL).empty_table()
    return rows.filter(pc.greater_equal(rows["last_us"], _micros(hour + HOUR_LENGTH) - TAIL_US))


def _digest(tail: pa.Table) -> str:
    """The same for the same rows in any order; "" of none, as after an hour of which nothing was recorded."""
    lines = sorted(repr(tuple(row.values())) for row in tail.to_pylist())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest() if lines else ""


def _write(frame: DataFrame, out: Path, table: str) -> None:
    start = "minute_us" if table == MINUTES else "start_us"
    by = {"dt": text_of(start, "yyyy-MM-dd")}
    if table != DAY:
        by["hr"] = text_of(start, "HH")
    dated = query(f"SELECT *, {named(by)} FROM {{frame}}", frame=frame)
    dated.write.mode("overwrite").partitionBy(*by).parquet(str(tables.table_folder(out, table)))


def _rows(files: Iterable[Path]) -> int:
    """By their footers. Raises OSError for a file that is none of Parquet, and names it, as Spark does not."""
    count = 0
    for file in files:
        try:
            count += pq.read_metadata(file).num_rows
        except (OSError, pa.ArrowException) as error:
            raise OSError(f"{file} can't be read: {error}") from error
    return count
