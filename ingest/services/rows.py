"""Many rows, each with values of its own, in one prepared statement."""

from collections.abc import Sequence
from typing import Any

from django.db import connection
from django.db.models import Model


def update_each(rows: Sequence[Model], fields: Sequence[str]) -> None:
    """Writes these fields of rows that are there, in the order given. Whoever may change them meanwhile is held off by
    the caller.

    As `bulk_update` does, whose expression for each field of each row costs more than the database takes for all.
    """
    if not rows:
        return
    meta, quote = type(rows[0])._meta, connection.ops.quote_name
    columns: list[Any] = [*(meta.get_field(name) for name in fields), meta.pk]
    *changes, where = (f"{quote(column.column)} = %s" for column in columns)
    statement = f"UPDATE {quote(meta.db_table)} SET {', '.join(changes)} WHERE {where}"  # noqa: S608 - names of ours.
    values = [[column.get_db_prep_save(getattr(row, column.attname), connection) for column in columns] for row in rows]
    with connection.cursor() as cursor:
        cursor.executemany(statement, values)
