"""Many rows, each with values of its own, by one prepared statement.

`bulk_create` and `bulk_update` put one statement together of all rows' values, which costs more than the database takes
for it.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from django.db import connection
from django.db.models import Model


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
