"""SQL where Django's own is too slow: many rows by one prepared statement, queries that are put together once and asked
again with other values, and counts that stop where it does not matter any more.

`bulk_create` and `bulk_update` put one statement together of all rows' values, and to put a query together costs
several times what the database takes to answer it."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connection
from django.db.models import Expression, Field, Model, QuerySet
from django.db.models.sql.compiler import SQLCompiler


def insert_each(rows: Sequence[Model], *, but_those_there: bool = False) -> None:
    """Makes the rows. `but_those_there`: what is there of them stays as it is."""
    if not rows:
        return
    meta = type(rows[0])._meta
    fields = [field for field in meta.concrete_fields if field is not meta.pk or rows[0].pk is not None]
    columns = [field for field in fields if not field.generated]
    places = ", ".join("%s" for _ in columns)
    end = " ON CONFLICT DO NOTHING" if but_those_there else ""
    statement = f"INSERT INTO {_quoted(meta.db_table)} ({', '.join(_names(columns))}) VALUES ({places}){end}"  # noqa: S608
    _execute(statement, columns, ([getattr(row, field.attname) for field in columns] for row in rows))


def update_each(rows: Sequence[Model], fields: Sequence[str]) -> None:
    """Writes these fields of rows that are there, in their order. Whoever may change them meanwhile is held off by the
    caller."""
    if not rows:
        return
    model = type(rows[0])
    names = [*(_field(model, name).attname for name in fields), "pk"]
    set_each(model, fields, ([getattr(row, name) for name in names] for row in rows))


def set_each(model: type[Model], fields: Sequence[str], values: Iterable[Sequence[Any]]) -> None:
    """As `update_each`, by values of the fields and, behind them, the primary key."""
    meta = model._meta
    columns = [*(_field(model, name) for name in fields), meta.pk]
    *changes, where = (f"{name} = %s" for name in _names(columns))
    _execute(f"UPDATE {_quoted(meta.db_table)} SET {', '.join(changes)} WHERE {where}", columns, values)  # noqa: S608


def _execute(statement: str, columns: Sequence[Any], values: Iterable[Sequence[Any]]) -> None:
    prepare = [column.get_db_prep_save for column in columns]
    rows = [[each(value, connection) for each, value in zip(prepare, row, strict=True)] for row in values]
    if rows:
        with connection.cursor() as cursor:
            cursor.executemany(statement, rows)


def _field(model: type[Model], name: str) -> Any:
    return model._meta.get_field(name)


def _names(columns: Sequence[Any]) -> list[str]:
    return [_quoted(str(column.column)) for column in columns]


def _quoted(name: str) -> str:
    return connection.ops.quote_name(name)


Row = tuple[Any, ...]


class Given(Expression):
    """Stands in a query for a value that each question gives: `filter(until__gt=Given("now", DateTimeField()))`."""

    def __init__(self, name: str, field: "Field[Any, Any]") -> None:
        """`field`: of its kind the value is, as a column's."""
        super().__init__(output_field=field)
        self._name, self._field = name, field

    def as_sql(self, compiler: SQLCompiler, connection: Any) -> tuple[str, tuple[Any, ...]]:
        return "%s", (self,)

    def of(self, values: Mapping[str, Any]) -> Any:
        """Its value among these, as the database's driver takes it."""
        return self._field.get_db_prep_value(values[self._name], connection)


class Prepared:
    """A query of columns (`values_list`), with a `Given` for each value that changes; decorates what makes it, which is
    called when it is asked first. Any thread may ask."""

    def __init__(self, build: Callable[[], "QuerySet[Any, Any]"]) -> None:
        self._build = build
        self._lock = threading.Lock()
        self._sql = ""

    def ask(self, **values: Any) -> list[Row]:
        """Its rows, with the values of its `Given`s by their names."""
        with self._lock:
            if not self._sql:
                self._put_together()
        given = [each.of(values) if isinstance(each, Given) else each for each in self._given]
        with connection.cursor() as cursor:
            cursor.execute(self._sql, given)
            rows = cursor.fetchall()
        return [self._converted(row) for row in rows] if self._converters else rows

    def _put_together(self) -> None:
        compiler = self._build().query.get_compiler(using=DEFAULT_DB_ALIAS)
        self._sql, self._given = compiler.as_sql()
        self._converters = compiler.get_converters([column for column, *_ in compiler.select]).items()

    def _converted(self, row: Row) -> Row:
        found = list(row)
        for place, (converters, column) in self._converters:
            for convert in converters:
                found[place] = convert(found[place], column, connection)
        return tuple(found)


MAX_COUNT = 10_000


def count_up_to(rows: "QuerySet[Any]", most: int = MAX_COUNT) -> int:
    """How many there are; `most` where there are as many or more."""
    return rows.order_by()[:most].count()
