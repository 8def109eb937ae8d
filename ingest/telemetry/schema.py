"""The lake's tables and their Arrow schemas, made from the records' dataclasses in `ingest.contracts`.

A field's annotation gives its type: `str` (and a Literal) utf8, `int` int64, `float` float64; `| None` makes it
nullable. `VERSION` is part of every path (`samples/v=1/...`): it grows when a field changes its meaning or type. A new
field does not change it: older files lack the column, and who reads them together with newer ones asks for null in its
place, as the jobs do by their schema (DuckDB: `union_by_name`).

This package loads Arrow when the first record is written: with numpy it is 45 MB of a process, and most never need it.
"""

import dataclasses
import sys
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.abc import MetaPathFinder
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ingest.contracts import EventRecord, Sample

if TYPE_CHECKING:
    import pyarrow as pa

VERSION = 1

ARROW_TYPES = {str: "string", int: "int64", float: "float64"}
"""By their names in Arrow."""


def arrow_schema(record: type) -> "pa.Schema":
    """The schema of a dataclass's fields, in their order. Raises TypeError for an annotation without a column type."""
    import pyarrow as pa

    _leave_pandas_out()
    hints = typing.get_type_hints(record)
    return pa.schema([_field(field.name, hints[field.name]) for field in dataclasses.fields(record)])


class _NoPandas(MetaPathFinder):
    """Arrow's own import is compiled, and takes a None in `sys.modules` for the module."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is left out: see ingest.telemetry.schema", name=fullname)


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

    nullable = False
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
        nullable = len(kinds) < len(typing.get_args(hint))
        hint = kinds[0] if len(kinds) == 1 else hint
    if typing.get_origin(hint) is typing.Literal:
        hint = str
    if hint not in ARROW_TYPES:
        raise TypeError(f"{name}: no column type for {hint!r}")
    return pa.field(name, pa.type_for_alias(ARROW_TYPES[hint]), nullable=nullable)


@dataclass(frozen=True)
class Table:
    """One of the lake's tables: its folder's name, and the dataclass of its records."""

    name: str
    record: type

    @cached_property
    def schema(self) -> "pa.Schema":
        return arrow_schema(self.record)

    @cached_property
    def _values(self) -> Callable[[Any], tuple[Any, ...]]:
        """How a record's fields are read."""
        return attrgetter(*self.schema.names)

    def batch(self, records: Sequence[object]) -> "pa.RecordBatch":
        """The records as one batch of columns. Raises ArrowInvalid or ArrowTypeError for a value of a wrong type."""
        import pyarrow as pa

        columns = zip(*map(self._values, records), strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, self.schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def fitting(rows: "pa.Table | pa.RecordBatch", schema: "pa.Schema") -> "pa.Table":
    """The rows with the schema's columns: older records lack the newer ones, which are null there."""
    import pyarrow as pa

    names = set(rows.schema.names)
    columns = [rows[each.name] if each.name in names else pa.nulls(rows.num_rows, each.type) for each in schema]
    return pa.table(columns, schema=schema)


SAMPLES = Table("samples", Sample)
EVENTS = Table("events", EventRecord)
TABLES = (SAMPLES, EVENTS)
