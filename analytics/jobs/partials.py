"""What some of an hour's files come to, made once and kept: a partial, from which hours are merged.

    LAKE/rollups/partials/v=METRIC_VERSION/dt=YYYY-MM-DD/hr=HH/NAME/
        minutes.parquet   schemas.MINUTES
        sessions.parquet  schemas.SESSIONS
        buckets.parquet   schemas.BUCKETS
        events.parquet    schemas.EVENTS, those that are counted
        manifest.json     {"files": [[path below the lake, size, time of its last change (ns)], ...], "rows", "strays"}

It appears whole or not at all, and is never changed. It counts as long as each of its files is as it was; NAME is a
digest of them, and of those that were damaged when it was made. Each sample is in it once. `make` runs in a worker of
Spark, or in this process where there is little to do: it has pyarrow and numpy and gets this module by value.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypedDict, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from analytics import schemas
from analytics.jobs.minutes import HOUR_US, buckets, concatenated, minutes, overlapping, sessions, single
from analytics.schemas import LakeFile
from ingest.disk import sync

TABLES = {
    "minutes": schemas.MINUTES,
    "sessions": schemas.SESSIONS,
    "buckets": schemas.BUCKETS,
    "events": schemas.EVENTS,
}
MANIFEST = "manifest.json"

Item = TypeVar("Item")

PIECE_ROWS = 500_000
"""Samples that are in memory at once: about 350 MB with what is made of them."""

COUNTED = ("session.started", "session.ended", "attempt")
"""The kinds of events that figures are counted from."""


class Task(TypedDict):
    """A partial to make, of an hour. `merge`: names of partials that it takes the place of, besides `files`."""

    lake: str
    folder: str
    hour_us: int
    files: list[LakeFile]
    merge: list[str]


class Made(TypedDict):
    """What came of a task. `damaged`: {path: what is wrong with it}."""

    folder: str
    rows: int
    damaged: dict[str, str]


class Damaged(Exception):  # noqa: N818
    """A file that is no (whole) Parquet file of its table."""

    def __init__(self, file: LakeFile, error: Exception) -> None:
        super().__init__(str(error))
        self.file = file


def make(task: Task) -> Made:
    """Makes the partial, without the files that are damaged. Raises OSError of what can't be read or written."""
    damaged: dict[LakeFile, str] = {}
    while True:
        try:
            rows = _write(task, damaged)
            break
        except Damaged as error:
            task = _without(task, error.file)
            damaged[error.file] = f"{error}"[:300]
    return {"folder": task["folder"], "rows": rows, "damaged": {file[0]: why for file, why in damaged.items()}}


def answer(task: Task) -> pa.Table:
    """What came of it, in JSON: as a worker of Spark answers."""
    return pa.table({"made": [json.dumps(make(task))]})


def _without(task: Task, damaged: LakeFile) -> Task:
    """The task without the file. A partial that has it is not merged: what else that has is read again."""
    files, merge = list(task["files"]), []
    for name in task["merge"]:
        manifest = read_manifest(Path(task["folder"]) / name)
        of = [(path, size, changed) for path, size, changed in manifest["files"]]
        if damaged in of:
            files += of
        else:
            merge.append(name)
    return {**task, "files": [file for file in files if file != damaged], "merge": merge}


def _write(task: Task, damaged: Iterable[LakeFile]) -> int:
    """How many rows its files have. `damaged`: those that it has none of."""
    lake, folder, hour_us, files = Path(task["lake"]), Path(task["folder"]), task["hour_us"], task["files"]
    former = [read_manifest(folder / name) for name in task["merge"]]
    if not files and not former:
        return 0
    strays = sum(manifest["strays"] for manifest in former)
    rows: int = sum(manifest["rows"] for manifest in former)
    parts = [
        {table: read_part(folder / name / f"{table}.parquet") for table in ("minutes", "buckets")}
        for name in task["merge"]
    ]
    events = [read_part(folder / name / "events.parquet") for name in task["merge"]]
    for piece in _pieces(lake, [file for file in files if _is_of_samples(file)], schemas.encoded(schemas.SAMPLES)):
        within = _within(piece, hour_us)
        rows, strays = rows + piece.num_rows, strays + piece.num_rows - within.num_rows
        parts.append(_part(within, hour_us))
    for piece in _pieces(lake, [file for file in files if not _is_of_samples(file)], schemas.arrow(schemas.EVENTS)):
        within = _within(piece, hour_us)
        rows, strays = rows + piece.num_rows, strays + piece.num_rows - within.num_rows
        events.append(_counted(within))
    known = sorted({*map(tuple, files), *(tuple(file) for manifest in former for file in manifest["files"])})
    parts = _once_together(parts, lake, [file for file in known if _is_of_samples(file)], hour_us)
    of_minutes = concatenated((part["minutes"] for part in parts), schemas.MINUTES)
    tables = {
        "minutes": of_minutes,
        "sessions": sessions(of_minutes, hour_us),
        "buckets": concatenated((part["buckets"] for part in parts), schemas.BUCKETS),
        "events": concatenated(events, schemas.EVENTS),
    }
    manifest = {"files": known, "rows": rows, "strays": strays}
    write(folder, tables, manifest, damaged)
    return rows


def write(folder: Path, tables: dict[str, pa.Table], manifest: dict[str, Any], damaged: Iterable[LakeFile] = ()) -> str:
    """Puts a partial into an hour's folder; its name. One of the same files that is there already stays. `damaged`:
    files that it was to have: without them it may have those of a partial that it takes the place of, not its name.
    """
    name = name_of([*manifest["files"], *damaged])
    work = folder / f".{name}-{os.getpid()}.tmp"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    try:
        for table, rows in tables.items():
            pq.write_table(rows, work / f"{table}.parquet", compression="zstd")
        (work / MANIFEST).write_text(json.dumps(manifest))
        for path in (*work.iterdir(), work):
            sync(path)
        if not (folder / name).exists():
            work.rename(folder / name)
            sync(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return name


def carry(folder: Path, files: Iterable[LakeFile], others: Iterable[LakeFile]) -> None:
    """Has an hour's partials be of other files that hold the same as theirs; not, if they don't have all of them."""
    former = there(folder)
    known = {tuple(file) for manifest in former.values() for file in manifest["files"]}
    if not former or known != set(files):
        return
    together = {
        table: concatenated((read_part(partial / f"{table}.parquet") for partial in former), columns)
        for table, columns in TABLES.items()
    }
    sums = {name: sum(manifest[name] for manifest in former.values()) for name in ("rows", "strays")}
    name = write(folder, together, {"files": sorted(others), **sums})
    for partial in former:
        if partial.name != name:
            shutil.rmtree(partial)


def there(folder: Path) -> dict[Path, dict[str, Any]]:
    """The partials in an hour's folder, with their manifests."""
    return {file.parent: read_manifest(file.parent) for file in sorted(folder.glob(f"[!.]*/{MANIFEST}"))}


def read_manifest(partial: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((partial / MANIFEST).read_text())
    return found


def name_of(files: Iterable[LakeFile]) -> str:
    return hashlib.sha256(json.dumps(sorted(map(list, files))).encode()).hexdigest()[:32]


def _once_together(
    parts: list[dict[str, pa.Table]], lake: Path, files: Sequence[LakeFile], hour_us: int
) -> list[dict[str, pa.Table]]:
    """The parts without samples that another of them has as well: the sessions of these are read once more, whole."""
    doubtful = overlapping([part["minutes"] for part in parts])
    if not doubtful:
        return parts
    doubted = pa.array(sorted(doubtful))
    counts: dict[str, int] = {}
    for part in parts:
        rows = part["minutes"].filter(pc.is_in(part["minutes"]["session"], doubted))
        for row in rows.group_by("session").aggregate([("samples", "sum")]).to_pylist():
            counts[row["session"]] = counts.get(row["session"], 0) + row["samples_sum"]
    merged = [
        {table: rows.filter(pc.invert(pc.is_in(rows["session"], doubted))) for table, rows in part.items()}
        for part in parts
    ]
    schema = schemas.encoded(schemas.SAMPLES)
    for ids in portions(sorted(counts.items()), PIECE_ROWS):  # Their samples fit into memory together.
        read = (_read(lake, file, schema, [("session", "in", ids)]) for file in files)
        merged.append(_part(_within(pa.concat_tables(read).combine_chunks(), hour_us), hour_us))
    return merged


def _part(rows: pa.Table, hour_us: int) -> dict[str, pa.Table]:
    samples = single(rows)
    return {"minutes": minutes(samples), "buckets": buckets(samples, hour_us)}


def portions(sized: Iterable[tuple[Item, int]], most: int) -> Iterator[list[Item]]:
    """Items, in their order, as many together as are no larger than `most`; a larger one is alone."""
    portion: list[Item] = []
    together = 0
    for item, size in sized:
        if portion and together + size > most:
            yield portion
            portion, together = [], 0
        portion.append(item)
        together += size
    if portion:
        yield portion


def _is_of_samples(file: LakeFile) -> bool:
    return file[0].startswith("samples/")


def _pieces(lake: Path, files: Sequence[LakeFile], schema: pa.Schema) -> Iterator[pa.Table]:
    """What the files hold, in pieces that fit into memory, each in one chunk. Raises Damaged."""
    gathered: list[pa.Table] = []
    rows = 0
    for file in files:
        for piece in _batches(lake, file, schema):
            gathered.append(piece)
            rows += piece.num_rows
            if rows >= PIECE_ROWS:
                yield pa.concat_tables(gathered).combine_chunks()
                gathered, rows = [], 0
    if gathered:
        yield pa.concat_tables(gathered).combine_chunks()


def _batches(lake: Path, file: LakeFile, schema: pa.Schema) -> Iterator[pa.Table]:
    """The file's rows, several row groups at a time. Raises Damaged; OSError where the disk fails."""
    with _arrow_errors_as_damage(file), _opened(lake / file[0], schema) as parquet:
        names = set(parquet.schema_arrow.names)
        wanted = [name for name in schema.names if name in names]
        groups: list[int] = []
        rows = 0
        for group in range(parquet.num_row_groups):
            groups.append(group)
            rows += parquet.metadata.row_group(group).num_rows
            if rows >= PIECE_ROWS or group == parquet.num_row_groups - 1:
                yield _fitting(parquet.read_row_groups(groups, columns=wanted, use_threads=False), schema)
                groups, rows = [], 0


def _opened(path: Path, schema: pa.Schema) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path, read_dictionary=[each.name for each in schema if pa.types.is_dictionary(each.type)])
    except KeyError:  # An older file lacks one of them; what it has is encoded once it is read.
        return pq.ParquetFile(path)


def _read(lake: Path, file: LakeFile, schema: pa.Schema, filters: Any) -> pa.Table:
    with _arrow_errors_as_damage(file):
        names = pq.read_schema(lake / file[0]).names
        wanted = [name for name in schema.names if name in names]
        rows = pq.read_table(lake / file[0], columns=wanted, filters=filters, partitioning=None, use_threads=False)
        return _fitting(rows, schema)


@contextmanager
def _arrow_errors_as_damage(file: LakeFile) -> Iterator[None]:
    """Raises Damaged in place of what Arrow says of a file that is not whole; errors of the disk go on."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise Damaged(file, error) from error


def _fitting(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """With the schema's columns: older files lack the newer ones. Raises ArrowInvalid where it is another table's."""
    names = set(rows.column_names)
    missing = {"session", "sequence", "at_us", "node", "app", "name"} - names
    if missing:
        raise pa.ArrowInvalid(f"It has no column {', '.join(sorted(missing))}.")
    columns = [
        _as(rows[field.name], field.type) if field.name in names else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _as(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if column.type == kind:
        return column
    if pa.types.is_dictionary(kind):
        return column.cast(kind.value_type).dictionary_encode()
    return column.cast(kind)


def _within(rows: pa.Table, hour_us: int) -> pa.Table:
    """Those of the hour: others have no business in its folder."""
    at = rows["at_us"]
    is_within = pc.and_(pc.greater_equal(at, hour_us), pc.less(at, hour_us + HOUR_US))
    return rows if pc.all(is_within, skip_nulls=False).as_py() else rows.filter(is_within)


def _counted(events: pa.Table) -> pa.Table:
    return events.filter(pc.is_in(events["kind"], pa.array(COUNTED)))


def read_part(file: Path, columns: list[str] | None = None) -> pa.Table:
    with pq.ParquetFile(file) as parquet:
        return parquet.read(columns=columns, use_threads=False)
