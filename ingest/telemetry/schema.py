"""The lake's tables and their Arrow schemas, made from the records' dataclasses in `ingest.contracts`.

A field's annotation gives its type: `str` (and a Literal) utf8, `int` int64, `float` float64; `| None` makes it
nullable. `VERSION` is part of every path (`samples/v=1/...`): it grows when a field changes its meaning or type. A new
field does not change it: older files lack the column, and who reads them together with newer ones asks for null in its
place, as the jobs do by their schema (DuckDB: `union_by_name`).
"""

import dataclasses
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import pyarrow as pa

from ingest.contracts import EventRecord, Sample

VERSION = 1

ARROW_TYPES: dict[Any, pa.DataType] = {str: pa.string(), int: pa.int64(), float: pa.float64()}


def arrow_schema(record: type) -> pa.Schema:
    """The schema of a dataclass's fields, in their order. Raises TypeError for an annotation without a column type."""
    hints = typing.get_type_hints(record)
    return pa.schema([_field(field.name, hints[field.name]) for field in dataclasses.fields(record)])


def _field(name: str, hint: Any) -> pa.Field:
    nullable = False
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
        nullable = len(kinds) < len(typing.get_args(hint))
        hint = kinds[0] if len(kinds) == 1 else hint
    if typing.get_origin(hint) is typing.Literal:
        hint = str
    if hint not in ARROW_TYPES:
        raise TypeError(f"{name}: no column type for {hint!r}")
    return pa.field(name, ARROW_TYPES[hint], nullable=nullable)


@dataclass(frozen=True)
class Table:
    """One of the lake's tables: its folder's name, its schema, and how a record's fields are read."""

    name: str
    schema: pa.Schema
    values: Callable[[Any], tuple[Any, ...]]

    def batch(self, records: Sequence[object]) -> pa.RecordBatch:
        """The records as one batch of columns. Raises ArrowInvalid or ArrowTypeError for a value of a wrong type."""
        columns = zip(*map(self.values, records), strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, self.schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _table(name: str, record: type) -> Table:
    schema = arrow_schema(record)
    return Table(name, schema, attrgetter(*schema.names))


SAMPLES = _table("samples", Sample)
EVENTS = _table("events", EventRecord)
TABLES = (SAMPLES, EVENTS)
