"""Whether the database has what this version's models ask for, in words for an operator."""

from typing import Any

from django.core.management.base import CommandError
from django.db import DEFAULT_DB_ALIAS, DatabaseError, Error, connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.utils import timezone

from ingest import sqlite
from ingest.readonly import sqlstate

ADVICE = (
    "run `manage.py migrate`. "
    "`make run` does it at each start; RTMPWEB_DATA_DIR and DATABASE_URL say which database is meant."
)

APPLICATIONS = {"ingest", "analytics", "dashboard"}
"""Whose migrations tell the version. Those of libraries come and go with these."""

UNRELEASED = ("ingest", "0002_roles")
"""Every database from before 0.1.0 has it, and no later one."""

UNDEFINED = ("42P01", "42703")
"""PostgreSQL's states: undefined_table, undefined_column."""
SQLITE_SAYS = ("no such table", "no such column", "has no column")


def lacks_tables(error: BaseException) -> bool:
    """Whether a query failed for a table or column that isn't there."""
    if not isinstance(error, DatabaseError):
        return False
    return sqlstate(error) in UNDEFINED or any(words in str(error) for words in SQLITE_SAYS)


def difference() -> str:
    """In what the database is of another version, and what to do; empty: in nothing. DatabaseError: no answer."""
    executor = MigrationExecutor(connection)
    if words := of_another_version(executor.loader):
        return words
    waiting = executor.migration_plan(executor.loader.graph.leaf_nodes())
    return f"The database lacks {len(waiting)} migrations of this version: {ADVICE}" if waiting else ""


def of_another_version(loader: MigrationLoader) -> str:
    """The same for a database that this version would write into as if it knew it: a newer version has migrated it, or
    one from before the first release made it."""
    if UNRELEASED in loader.applied_migrations:
        return (
            "The database was made before version 0.1.0, and can't be upgraded: have RTMPWEB_DATA_DIR or DATABASE_URL "
            "name an empty one."
        )
    known = {*loader.disk_migrations, *(former for each in loader.disk_migrations.values() for former in each.replaces)}
    unknown = sorted(each for each in loader.applied_migrations if each[0] in APPLICATIONS and each not in known)
    if not unknown:
        return ""
    copy = sqlite.newest_copy(lambda name: ("ingest", name) in known)
    kept = f"the copy from before the upgrade, {copy}," if copy else "a copy from before the upgrade"
    return (
        f"The database is of a newer version: it has {'.'.join(unknown[-1])}, which this one does not know. Start that "
        f"version again; or, to go back, stop all processes and put {kept} in its place (docs/operations.md, Upgrade)."
    )


def before(*, plan: list[Any], using: str, **kwargs: object) -> None:
    """Before `migrate` changes anything (Django's signal pre_migrate): is that right, and is there a way back?

    Raises CommandError.
    """
    if using != DEFAULT_DB_ALIAS:
        return
    loader = MigrationLoader(connection)
    if words := of_another_version(loader):
        raise CommandError(words)
    applied = loader.applied_migrations
    ours = [name for app, name in applied if app == "ingest"]
    if plan and ours:
        sqlite.keep_copy(state=len(applied), migration=max(ours), now=timezone.now())


def reason(error: Error) -> str:
    """The error's kind and first line, and what to do if it is known. Passwords are in no driver's messages."""
    said = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}".removesuffix(": ")
    known = f"The database lacks tables of this version: {ADVICE}" if lacks_tables(error) else sqlite.advice(error)
    return f"{said}. {known}" if known else said
