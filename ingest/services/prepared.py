"""Queries that Django puts together once, and that are asked again and again with other values.

To put one together costs several times what the database takes to answer it.
"""

import threading
from collections.abc import Callable, Mapping
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connection
from django.db.models import Expression, Field, QuerySet
from django.db.models.sql.compiler import SQLCompiler

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
    """A query of columns (`values_list`), with a `Given` for each value that changes. Any thread may ask."""

    def __init__(self, build: Callable[[], "QuerySet[Any, Any]"]) -> None:
        """`build` makes the query, when it is asked first."""
        self._build = build
        self._lock = threading.Lock()
        self._statement: _Statement | None = None

    def ask(self, **values: Any) -> list[Row]:
        """Its rows, with the values of its `Given`s by their names."""
        with self._lock:
            if self._statement is None:
                self._statement = _Statement(self._build())
        return self._statement.ask(values)


class _Statement:
    def __init__(self, query: "QuerySet[Any, Any]") -> None:
        compiler = query.query.get_compiler(using=DEFAULT_DB_ALIAS)
        self._sql, self._given = compiler.as_sql()
        self._converters = compiler.get_converters([column for column, *_ in compiler.select]).items()

    def ask(self, values: Mapping[str, Any]) -> list[Row]:
        given = [each.of(values) if isinstance(each, Given) else each for each in self._given]
        with connection.cursor() as cursor:
            cursor.execute(self._sql, given)
            rows = cursor.fetchall()
        return [self._converted(row) for row in rows] if self._converters else rows

    def _converted(self, row: Row) -> Row:
        found = list(row)
        for place, (converters, column) in self._converters:
            for convert in converters:
                found[place] = convert(found[place], column, connection)
        return tuple(found)
