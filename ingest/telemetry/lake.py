"""The lake: its tables, whose Arrow schemas are made of the dataclasses in `ingest.contracts`; and its files.

A field's annotation gives its type: `str` (and a Literal) utf8, `int` int64, `float` float64; `| None` makes it
nullable. `VERSION` is part of every path (`samples/v=1/...`): it grows when a field changes its meaning or type. A new
field does not change it: older files lack the column, and who reads them together with newer ones asks for null in its
place, as the jobs do by their schema (DuckDB: `union_by_name`).

Files are `TABLE/v=1/dt=YYYY-MM-DD/hr=HH/NAME.parquet`, partitioned by the record's own hour (UTC). A file appears whole
or not at all: it is written as `.NAME.parquet.tmp`, fsynced, renamed, and its folder fsynced.

This package loads Arrow when the first record is written: with numpy it is 45 MB, and most processes never need it."""

import os
import re
import sys
import typing
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from importlib.abc import MetaPathFinder
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ingest.contracts import EventRecord, Sample
from ingest.disk import sync

if TYPE_CHECKING:
    import pyarrow as pa

VERSION = 1

ARROW_TYPES = {str: "string", int: "int64", float: "float64"}
"""By their names in Arrow."""

NULLABLE: dict[object, type] = {str | None: str, int | None: int, float | None: float}


class _NoPandas(MetaPathFinder):
    """Arrow's own import is compiled, and takes a None in `sys.modules` for the module."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is left out: see ingest.telemetry.lake", name=fullname)


def _leave_pandas_out() -> None:
    """With its first array Arrow looks, once, whether there is pandas, and loads it where it is installed: 55 MB more
    and half a second of the processor, and no code here uses it. So it looks now, and finds none.
    """
    import pyarrow as pa

    if "pandas" in sys.modules:
        return
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([None])
    finally:
        sys.meta_path.remove(finder)


def _field(name: str, hint: Any) -> "pa.Field":
    import pyarrow as pa

    kind = str if typing.get_origin(hint) is typing.Literal else NULLABLE.get(hint, hint)
    if kind not in ARROW_TYPES:
        raise TypeError(f"{name}: no column type for {hint!r}")
    return pa.field(name, pa.type_for_alias(ARROW_TYPES[kind]), nullable=hint in NULLABLE)


@dataclass(frozen=True)
class Table:
    """One of the lake's tables: its folder's name, and the dataclass of its records."""

    name: str
    record: type

    @cached_property
    def schema(self) -> "pa.Schema":
        """Of the record's fields, in their order. Raises TypeError for an annotation without a column type."""
        import pyarrow as pa

        _leave_pandas_out()
        return pa.schema([_field(name, hint) for name, hint in typing.get_type_hints(self.record).items()])

    @cached_property
    def _values(self) -> Callable[[Any], tuple[Any, ...]]:
        return attrgetter(*self.schema.names)

    def batch(self, records: Sequence[object]) -> "pa.RecordBatch":
        """The records as one batch of columns. Raises ArrowInvalid or ArrowTypeError for a value of a wrong type."""
        import pyarrow as pa

        columns = zip(*map(self._values, records), strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, self.schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def fitting(rows: "pa.Table | pa.RecordBatch", schema: "pa.Schema") -> "pa.Table":
    """The rows with the schema's columns: older records lack the newer ones, which are null there; or 0, or "", where
    the schema has no null."""
    import pyarrow as pa

    names = set(rows.schema.names)
    columns = [rows[each.name] if each.name in names else _lacking(each, rows.num_rows) for each in schema]
    return pa.table(columns, schema=schema)


def _lacking(field: "pa.Field", count: int) -> "pa.Array":
    import pyarrow as pa

    if field.nullable:
        return pa.nulls(count, field.type)
    return pa.repeat(pa.scalar("" if pa.types.is_string(field.type) else 0, field.type), count)


SAMPLES = Table("samples", Sample)
EVENTS = Table("events", EventRecord)
TABLES = (SAMPLES, EVENTS)

HOUR_US = 3_600_000_000


def table_folder(lake: Path, table: str) -> Path:
    return lake / table / f"v={VERSION}"


def hour_folder(lake: Path, table: str, hour: datetime) -> Path:
    """The folder of an hour (UTC)."""
    return table_folder(lake, table) / f"dt={hour:%Y-%m-%d}" / f"hr={hour:%H}"


def file_prefix(node: str) -> str:
    """What the names of a node's files begin with."""
    return re.sub(r"[^A-Za-z0-9-]", "-", node).strip("-") or "node"


def by_hour(records: "pa.Table") -> "Iterator[tuple[datetime, pa.Table]]":
    import pyarrow.compute as pc

    hours = pc.divide(records["at_us"], HOUR_US)
    for hour in sorted(pc.unique(hours).to_pylist()):
        yield datetime.fromtimestamp(hour * 3600, UTC), records.filter(pc.equal(hours, hour))


def write_parquet(records: "pa.Table", file: Path) -> None:
    """Writes the file atomically and durably, in place of one of the same name. Raises OSError.

    It is no older than its records, whatever the machine's clock says: readers leave out files from before their time.
    """
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    file.parent.mkdir(parents=True, exist_ok=True)
    with publish_file(file) as out:
        pq.write_table(records, out, compression="zstd")
        out.flush()
        latest_ns = 1000 * (pc.max(records["at_us"]).as_py() or 0)
        if os.fstat(out.fileno()).st_mtime_ns < latest_ns:
            os.utime(out.fileno(), ns=(latest_ns, latest_ns))


@contextmanager
def publish_file(file: Path) -> Iterator[BinaryIO]:
    """What is written appears whole, under this name, when the block has ended well; else not at all."""
    partial = file.with_name(f".{file.name}.tmp")
    try:
        with partial.open("wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
    except BaseException:  # A full disk: what was written of it only takes up more.
        partial.unlink(missing_ok=True)
        raise
    partial.rename(file)
    sync(file.parent)
