"""Hours and days of figures: from which files, in which order, by whom, and where the result is written.

Partials of new files are made first (each file is read once), then session hours, then groups; Spark counts events. A
function of Arrow over tasks is done by Spark's workers or, where there is little to do, by this process. A cluster's
workers have Python, Arrow and numpy, and none of our code: they get the modules of the list below by value. What comes
of it are few rows, which this process writes, one file for each table and hour."""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

from analytics import histograms, metrics, schemas, tables
from analytics.jobs import dimensions, groups, minutes, partials
from analytics.jobs.dimensions import GROUP, OF, PLAYERS_OF
from analytics.jobs.events import happened_in_days, happened_in_hours
from analytics.jobs.groups import DayTask, HourTask, of_day, of_hour, positions_in
from analytics.jobs.minutes import NUMBERS, concatenated, overlapping
from analytics.jobs.partials import Made, Task, read_part
from analytics.jobs.sessions import TAIL_US, session_hours
from analytics.schemas import Computed, HourInput, LakeFile, aggregated
from analytics.tables import DAY, HOUR, SESSION_HOURS, figures_file
from ingest import disk

for module in (dimensions, disk, groups, histograms, metrics, minutes, partials, schemas):
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]

AnyTask = TypeVar("AnyTask")


def spread(
    session: SparkSession,
    tasks: Sequence[AnyTask],
    make: Callable[[AnyTask], pa.Table],
    columns: schemas.Columns,
    *,
    here: bool,
) -> pa.Table:
    """What is made of each task, one after another. `here`: Spark would take longer to start its Python workers."""
    schema = schemas.arrow(columns)
    if here or not tasks:
        return pa.concat_tables([schema.empty_table(), *map(make, tasks)])

    def made(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                yield from make(tasks[number]).to_batches()

    numbers = session.range(0, len(tasks), 1, len(tasks))
    return numbers.mapInArrow(made, schemas.ddl(columns)).toArrow().cast(schema)


TASK_BYTES = 16_000_000
"""How much of the lake one task reads: some 300,000 samples."""

FEW_BYTES = 8_000_000
"""What is no more than this is read by this process: Spark would take longer to start its Python workers."""


@dataclass(slots=True)
class HourPartials:
    """An hour's partials. `rows`: of all its files; `read`: of those that were new; `damaged`: {path: why}."""

    folders: list[Path] = field(default_factory=list)
    rows: int = 0
    read: int = 0
    strays: int = 0
    damaged: dict[str, str] = field(default_factory=dict)


def update_partials(session: SparkSession, lake: Path, hours: Sequence[HourInput]) -> dict[datetime, HourPartials]:
    """Makes the partials that are missing. Raises OSError of what can't be read or written."""
    by_hour = {hour.start: HourPartials() for hour in hours}
    folders = {str(_folder(lake, hour.start)): hour.start for hour in hours}
    tasks = [
        _task(lake, hour.start, files=files)
        for hour in hours
        for files in partials.portions(((file, file[1]) for file in _new(lake, hour)), TASK_BYTES)
    ]
    for result in _carried_out(session, tasks):
        scanned = by_hour[folders[result["folder"]]]
        scanned.read += result["rows"]
        scanned.damaged |= result["damaged"]
    doubled = [_task(lake, hour.start, merge=merge) for hour in hours if (merge := _doubled(lake, hour.start))]
    for result in _carried_out(session, doubled):
        by_hour[folders[result["folder"]]].damaged |= result["damaged"]
    for task in doubled:
        for name in task["merge"]:
            shutil.rmtree(Path(task["folder"]) / name)
    for hour in hours:
        scanned = by_hour[hour.start]
        for folder, manifest in partials.there(_folder(lake, hour.start)).items():
            scanned.folders.append(folder)
            scanned.rows += manifest["rows"]
            scanned.strays += manifest["strays"]
    return by_hour


def _folder(lake: Path, start: datetime) -> Path:
    return tables.partition_folder(lake, tables.PARTIALS, start)


def _new(lake: Path, hour: HourInput) -> list[LakeFile]:
    """The hour's files that no partial has; partials that don't count any more are removed."""
    left = set(hour.files)
    for folder, manifest in sorted(
        partials.there(_folder(lake, hour.start)).items(), key=lambda item: -len(item[1]["files"])
    ):
        files = {(path, size, changed) for path, size, changed in manifest["files"]}
        if files <= left:
            left -= files
        else:
            shutil.rmtree(folder)
    return [file for file in hour.files if file in left]


def _doubled(lake: Path, start: datetime) -> list[str]:
    """The names of an hour's partials, if some of them have the same samples: they become one that has each once."""
    folders = sorted(partials.there(_folder(lake, start)))
    if len(folders) < 2 or not overlapping(
        [partials.read_part(folder / "minutes.parquet", NUMBERS) for folder in folders]
    ):
        return []
    return [folder.name for folder in folders]


def _task(lake: Path, start: datetime, *, files: Sequence[LakeFile] = (), merge: Sequence[str] = ()) -> Task:
    hour_us = int(start.timestamp()) * 1_000_000
    folder = str(_folder(lake, start))
    return {"lake": str(lake), "folder": folder, "hour_us": hour_us, "files": list(files), "merge": list(merge)}


def _carried_out(session: SparkSession, tasks: Sequence[Task]) -> list[Made]:
    sizes = (size for task in tasks for _, size, _ in (*task["files"], *_merged(task)))
    results = spread(session, tasks, partials.answer, {"made": schemas.TEXT}, here=sum(sizes) <= FEW_BYTES)
    return [json.loads(made) for made in results["made"].to_pylist()]


def _merged(task: Task) -> Iterator[LakeFile]:
    for name in task["merge"]:
        yield from partials.read_manifest(Path(task["folder"]) / name)["files"]


def with_events(groups: pa.Table, happened: pa.Table) -> pa.Table:
    """schemas.GROUPS and HAPPENED_IN to ROLLUPS: of each group that is in one of them."""
    (place,) = positions_in(happened.select(GROUP), [groups])
    alone = np.setdiff1d(np.arange(happened.num_rows), place)
    of_groups = np.concatenate((np.arange(groups.num_rows), np.full(len(alone), groups.num_rows)))
    of_events = np.concatenate((np.where(place < 0, happened.num_rows, place), alone))
    sums = _or_none(groups, schemas.GROUPS).take(pa.array(of_groups))
    counts = _or_none(happened, schemas.HAPPENED_IN).take(pa.array(of_events))
    columns = {name: pc.coalesce(sums[name], counts[name]) for name in (*GROUP, "stream")}
    for name in schemas.ROLLUPS:
        if name not in columns:
            columns[name] = (counts if name in schemas.HAPPENED_IN else sums)[name]
    has_players = pc.is_in(columns["dimension"], pa.array([each.value for each in PLAYERS_OF]))
    for name in ("unique_players", "players_sketch"):
        columns[name] = pc.if_else(has_players, columns[name], None)
    return schemas.cast(pa.table(columns), schemas.ROLLUPS)


def _or_none(rows: pa.Table, columns: schemas.Columns) -> pa.Table:
    """With a last row of a group that has nothing."""
    nothing = {name: NOTHING.get(kind) for name, kind in columns.items() if name not in UNDEFINED}
    return pa.concat_tables([schemas.cast(rows, columns), pa.Table.from_pylist([nothing], schemas.arrow(columns))])


NOTHING = {schemas.WHOLE: 0, schemas.COUNTS: [], schemas.HISTOGRAM: []}
UNDEFINED = {*schemas.GROUP, "stream", "peak_at_us", "players_sketch"}
"""Are null where there is nothing."""

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
    scanned = update_partials(session, lake, hours)
    first = hours[0].start
    tail = tail_of(lake, first - HOUR_LENGTH)
    starts = [hour.start for hour in hours]
    _merge_hours(session, lake, scanned, tail, out)
    return {start: _computed(out, HOUR, start, scanned[start], _digest(tail_of(out, start))) for start in starts}


def compute_days(session: SparkSession, lake: Path, days: Sequence[datetime], out: Path) -> dict[datetime, Computed]:
    """Computes days from their hours as they are in the lake. Raises OSError."""
    hours, sessions = ({day: _files_of(lake, table, day) for day in days} for table in (HOUR, SESSION_HOURS))
    rows = {day: _rows(hours[day]) for day in days}
    is_small = sum(rows.values()) < FEW_ROLLUPS
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
        for dimensions in ([DIMENSIONS] if is_small else [{name: of} for name, of in DIMENSIONS.items()])
        if rows[day]
    ]
    groups = spread(session, tasks, of_day, schemas.GROUPS, here=is_small)
    _write(with_events(groups, happened), DAY, days, out)
    return {day: _computed(out, DAY, day, HourPartials(rows=rows[day], read=rows[day])) for day in days}


def tail_of(root: Path, hour: datetime) -> pa.Table:
    """What the next hour begins with (schemas.TAIL), in a fixed order. `root`: of the lake, or of what is computed."""
    end_us = _micros(hour + HOUR_LENGTH)
    columns = ["app", "name", "session", "last_us", "broadcast_us"]
    rows = _read(figures_file(root, SESSION_HOURS, hour), columns)
    if rows is None:
        return schemas.arrow(schemas.TAIL).empty_table()
    late = rows.filter(pc.greater_equal(rows["last_us"], end_us - TAIL_US))
    late = late.sort_by([(name, "ascending") for name in ("app", "name", "last_us", "broadcast_us", "session")])
    of_streams = aggregated(late, ["app", "name"], [("last_us", "last"), ("broadcast_us", "last")])
    of_streams = of_streams.append_column("session", pa.repeat("", of_streams.num_rows))
    of_sessions = aggregated(late, ["app", "name", "session"], [("broadcast_us", "last")])
    of_sessions = of_sessions.append_column("last_us", pa.nulls(of_sessions.num_rows, pa.int64()))
    return pa.concat_tables(schemas.cast(part, schemas.TAIL) for part in (of_streams, of_sessions)).sort_by(
        [(name, "ascending") for name in ("app", "name", "session")]
    )


def _merge_hours(
    session: SparkSession, lake: Path, scanned: Mapping[datetime, HourPartials], tail: pa.Table, out: Path
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
    _write(with_events(groups, _counted(happened)), HOUR, starts, out)


def _given(lake: Path, starts: Sequence[datetime]) -> pa.Table:
    """The broadcasts (schemas.GIVEN) that the hours' sessions keep: those from which a later hour has gone on."""
    following = starts[-1] + HOUR_LENGTH
    columns = ["session", "broadcast_us"]
    tables = [schemas.arrow(schemas.GIVEN).empty_table()]
    later = _read(figures_file(lake, SESSION_HOURS, following), columns)
    for start in starts if later is not None else ():
        own = _read(figures_file(lake, SESSION_HOURS, start), columns)
        known = pa.concat_tables([part for part in (own, later if start == starts[-1] else None) if part is not None])
        named = aggregated(known, ["session"], [("broadcast_us", "first")])
        named = named.append_column("start_us", pa.repeat(_micros(start), named.num_rows))
        tables.append(schemas.cast(named, schemas.GIVEN))
    return pa.concat_tables(tables)


def _computed(out: Path, table: str, start: datetime, scanned: HourPartials, tail: str = "") -> Computed:
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
    starts = (day + number * HOUR_LENGTH for number in range(24))
    return [file for start in starts if (file := figures_file(lake, table, start)).exists()]


def _rows(files: Iterable[Path]) -> int:
    """By their footers."""
    return sum(pq.read_metadata(file).num_rows for file in files if file.exists())
