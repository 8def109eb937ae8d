"""Whether the database has what this version's models ask for, in words for an operator."""

from typing import Any

from django.db import DEFAULT_DB_ALIAS, DatabaseError, Error, connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone
from psycopg import errors

from ingest import sqlite

ADVICE = (
    "run `manage.py migrate`. "
    "`make run` does it at each start; RTMPWEB_DATA_DIR and DATABASE_URL say which database is meant."
)

SQLITE_SAYS = ("no such table", "no such column", "has no column")


def lacks_tables(error: BaseException) -> bool:
    """Whether a query failed for a table or column that isn't there."""
    if not isinstance(error, DatabaseError):
        return False
    cause = error.__cause__
    return isinstance(cause, errors.UndefinedTable | errors.UndefinedColumn) or any(
        words in str(error) for words in SQLITE_SAYS
    )


def missing() -> str:
    """What the database lacks and what to do; empty when nothing. Raises DatabaseError when it does not answer."""
    executor = MigrationExecutor(connection)
    waiting = executor.migration_plan(executor.loader.graph.leaf_nodes())
    return f"The database lacks {len(waiting)} migrations of this version: {ADVICE}" if waiting else ""


def before(*, plan: list[Any], using: str, **kwargs: object) -> None:
    """Before `migrate` changes anything (Django's signal pre_migrate). Raises CommandError."""
    if not plan or using != DEFAULT_DB_ALIAS:
        return
    applied = [name for app, name in MigrationRecorder(connection).applied_migrations() if app == "ingest"]
    if applied:
        sqlite.keep_copy(migration=max(applied), now=timezone.now())


def reason(error: Error) -> str:
    """The error's kind and first line, and what to do if it is known. Passwords are in no driver's messages."""
    said = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}".removesuffix(": ")
    known = f"The database lacks tables of this version: {ADVICE}" if lacks_tables(error) else sqlite.advice(error)
    return f"{said}. {known}" if known else said
