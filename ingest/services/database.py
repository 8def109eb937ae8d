"""The database: why it takes no writes, whether it has what this version's models ask for, its file where it is SQLite
(closed to others, copied before it is migrated), each in words for an operator; and its time, which all nodes share.

By the database's time goes what nodes and processes compare with one another: when a node was seen, until when a lease
lives, since when a publisher is silent. Each machine's own clock may be an hour off for a while, as before its time
service has set it, or after a virtual machine was paused. PostgreSQL has one clock for all. Processes that share an
SQLite file are on one machine, and so is theirs. Should that one leap, nobody is taken for dead: it shows as a break of
`Reach`, and all are heard anew."""

import errno
import logging
import os
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.db import (
    DEFAULT_DB_ALIAS,
    DatabaseError,
    Error,
    InterfaceError,
    InternalError,
    OperationalError,
    connection,
)
from django.db.backends.signals import connection_created
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.utils import timezone

from ingest import clock, command_line
from ingest.services import data_folder

PASSING = (OperationalError, InterfaceError, InternalError)
"""What the database raises while it is away, is busy, or takes no writes (PostgreSQL: InternalError). It passes."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Both are whole sentences. `advice`: what ends it."""

    why: str
    advice: str


STANDBY = Cause("It is a standby.", "Let DATABASE_URL name the primary, or promote this one.")
READ_ONLY = Cause(
    "Its transactions are read-only.", "Find out who has set default_transaction_read_only, and set it back."
)
FILE = Cause("Its file, its folder or their disk is read-only.", "Let the server write to its data folder again.")
DISK = Cause("Its disk fails, or became read-only.", "Check the system's log and that disk.")
FULL = Cause("Its disk is full.", "Free space on the disk that the database is on.")
LOCKED = Cause("Something keeps it locked.", "Find what writes for so long, such as a backup or a VACUUM, and end it.")
SILENT = Cause(
    "A write gets no answer.", "Find what holds locks (pg_stat_activity), or which synchronous standby is away."
)
OTHER_CAUSE = Cause("It refuses them.", "Check the database's log and the rights of its user.")

READ_ONLY_STATE = "25006"
POSTGRESQL = {READ_ONLY_STATE: READ_ONLY, "53100": FULL}
"""By the error's SQLSTATE."""
SQLITE = {
    sqlite3.SQLITE_READONLY: FILE,
    sqlite3.SQLITE_IOERR: DISK,
    sqlite3.SQLITE_FULL: FULL,
    sqlite3.SQLITE_BUSY: LOCKED,
}
"""By the error's primary code, its lowest byte."""


def is_write_refused(error: BaseException) -> bool:
    """Whether PostgreSQL refused a write as it takes none. SQLite's are OperationalErrors, as all that passes is."""
    return isinstance(error, Error) and sqlstate(error) == READ_ONLY_STATE


def sqlstate(error: Error) -> str:
    """What PostgreSQL calls it; "" where another database said it. Its driver is loaded only where it is used."""
    return getattr(error.__cause__, "sqlstate", None) or ""


def write_failure_cause(error: Error) -> Cause:
    """Why a write failed. Not to be called within a transaction: PostgreSQL is asked whether it is a standby."""
    found = _by_driver(error)
    return STANDBY if found is READ_ONLY and _is_standby() else found


def _by_driver(error: Error) -> Cause:
    if isinstance(error.__cause__, sqlite3.Error):
        return SQLITE.get(getattr(error.__cause__, "sqlite_errorcode", 0) & 0xFF, OTHER_CAUSE)
    return POSTGRESQL.get(sqlstate(error), OTHER_CAUSE)


def _is_standby() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_is_in_recovery()")
            return bool(cursor.fetchone()[0])
    except Error:
        return False


logger = logging.getLogger(__name__)

BESIDE = ("-wal", "-shm", "-journal")
"""The names' endings of what SQLite keeps beside a database."""

COPIES = "copies"
COPY = re.compile(r"\d{8}T\d{12}Z-\d+-\w+\.sqlite3")
"""A copy's name: when it was made, and of which state: how many migrations are in it, and ingest's last. By name, the
newest is the last."""

ROOM_BESIDE = 64 << 20
"""Bytes that a copy leaves free for those who write meanwhile."""

DAMAGED = (
    "The database {file} is damaged: {cause}. Stop all processes that use it, move it away with {name}-wal and "
    "{name}-shm, and put {copy} in its place; or have `sqlite3 {file} .recover` save what can be read of it."
)
CLOSED = (
    "The database {file} can't be used: {cause}. Let this user read and write it and its folder, or name another by "
    "RTMPWEB_DATA_DIR or DATABASE_URL."
)
WORDS = {
    sqlite3.SQLITE_CORRUPT: DAMAGED,
    sqlite3.SQLITE_NOTADB: DAMAGED,
    sqlite3.SQLITE_CANTOPEN: CLOSED,
    sqlite3.SQLITE_READONLY: CLOSED,
}
"""By SQLite's primary result codes, which are the lowest 8 bits of all others."""


def sqlite_file(connection: Any = connection) -> Path | None:
    """The database's; None: it is in no file."""
    if connection.vendor != "sqlite" or connection.is_in_memory_db():
        return None
    return Path(connection.settings_dict["NAME"])


# --- Modes ---

_closed: set[Path] = set()
"""Databases that this process has seen to."""


def close_to_others(connection: Any, **kwargs: object) -> None:
    """Once a process: SQLite gives what it makes beside a database the database's own mode."""
    file = sqlite_file(connection)
    if file is not None and file not in _closed:
        _closed.add(file)
        for ending in ("", *BESIDE):
            data_folder.close(file.with_name(file.name + ending))


connection_created.connect(close_to_others, dispatch_uid="ingest.services.database")


# --- Copies ---


def copy_before_migration(*, state: int, migration: str, now: datetime) -> None:
    """The database as it is, for who wants to go back; those of the latest RTMPWEB_KEEP_COPIES states stay.

    One of each state, its last: starts that fail again and again within a migration leave the copy from before it.
    Raises CommandError.
    """
    database = sqlite_file()
    if database is None or not settings.KEEP_COPIES:
        return
    copy = _folder() / f"{now:%Y%m%dT%H%M%S%fZ}-{state}-{migration}.sqlite3"
    try:
        copy.parent.mkdir(mode=data_folder.FOLDER, parents=True, exist_ok=True)
        for left in copy.parent.glob("*.partial"):  # By one that was killed.
            left.unlink()
        _check_room(database, copy.parent)
        _copy(database, copy)
        _prune(copy)
    except (OSError, sqlite3.Error) as error:
        if sqlite_advice(error):
            raise DatabaseError(str(error)) from error
        why = error.strerror if isinstance(error, OSError) else error
        raise CommandError(
            f"The database can't be copied to {copy.parent} before it is brought up to date: {why}. Make room there, "
            "or make it a link to a folder that has some; with a copy of your own, set RTMPWEB_KEEP_COPIES=0."
        ) from None
    logger.info("The database was copied to %s before it is brought up to date.", copy)


def newest_copy(fits: Callable[[str], bool] = bool) -> Path | None:
    """Of those that end with a migration that `fits`."""
    return next((copy for copy in reversed(_copies()) if fits(copy.stem.split("-")[2])), None)


def _folder() -> Path:
    return Path(settings.DATA_DIR, COPIES)


def _copies() -> list[Path]:
    """By age, the oldest first."""
    return sorted(path for path in _folder().glob("*.sqlite3") if COPY.fullmatch(path.name))


def _prune(made: Path) -> None:
    former = [copy for copy in _copies() if copy != made]
    same = [copy for copy in former if copy.name.split("-")[1] == made.name.split("-")[1]]
    others = [copy for copy in former if copy not in same]
    for copy in same + others[: max(0, len(others) + 1 - settings.KEEP_COPIES)]:
        copy.unlink()


def _check_room(database: Path, folder: Path) -> None:
    there = [database.with_name(database.name + ending) for ending in ("", "-wal")]
    size = sum(path.stat().st_size for path in there if path.exists())
    free = shutil.disk_usage(folder).free
    if free < size + ROOM_BESIDE:
        raise OSError(errno.ENOSPC, f"it takes {size >> 20} MiB, and {free >> 20} MiB are free there")


def _copy(database: Path, copy: Path) -> None:
    """Under its name only when it is whole, and on the disk."""
    partial = copy.with_suffix(".partial")
    try:
        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, data_folder.FILE))
        with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(partial)) as target:
            source.backup(target)
        with partial.open("rb") as written:
            os.fsync(written.fileno())
        partial.rename(copy)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


# --- Trouble ---


def sqlite_advice(error: BaseException) -> str:
    """What is wrong with the file, and what to do, if the error is SQLite's own of it; else empty."""
    cause = error if isinstance(error, sqlite3.Error) else error.__cause__
    words = WORDS.get(getattr(cause, "sqlite_errorcode", 0) & 0xFF)
    if words is None:
        return ""
    database, copy = Path(connection.settings_dict["NAME"]), newest_copy()
    kept = f"a copy (the newest from before an upgrade is {copy})" if copy else "a copy of your own"
    return words.format(file=database, name=database.name, cause=cause, copy=kept)


def _migrate_advice() -> str:
    return (
        f"run `{command_line.here('migrate')}`. "
        "`make run` does it at each start; RTMPWEB_DATA_DIR and DATABASE_URL say which database is meant."
    )


APPLICATIONS = {"ingest", "analytics", "dashboard"}
"""Whose migrations tell the version. Those of libraries come and go with these."""

UNRELEASED = ("ingest", "0002_roles")
"""Every database from before 0.1.0 has it, and no later one."""

UNDEFINED = ("42P01", "42703")
"""PostgreSQL's states: undefined_table, undefined_column."""
SQLITE_UNDEFINED = ("no such table", "no such column", "has no column")


def lacks_tables(error: BaseException) -> bool:
    """Whether a query failed for a table or column that isn't there."""
    if not isinstance(error, DatabaseError):
        return False
    return sqlstate(error) in UNDEFINED or any(words in str(error) for words in SQLITE_UNDEFINED)


def version_difference() -> str:
    """In what the database is of another version, and what to do; empty: in nothing. DatabaseError: no answer."""
    executor = MigrationExecutor(connection)
    if words := of_another_version(executor.loader):
        return words
    waiting = executor.migration_plan(executor.loader.graph.leaf_nodes())
    return f"The database lacks {len(waiting)} migrations of this version: {_migrate_advice()}" if waiting else ""


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
    copy = newest_copy(lambda name: ("ingest", name) in known)
    kept = f"the copy from before the upgrade, {copy}," if copy else "a copy from before the upgrade"
    return (
        f"The database is of a newer version: it has {'.'.join(unknown[-1])}, which this one does not know. Start that "
        f"version again; or, to go back, stop all processes and put {kept} in its place (docs/operations.md, Upgrade)."
    )


def check_before_migrate(*, plan: list[Any], using: str, **kwargs: object) -> None:
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
        copy_before_migration(state=len(applied), migration=max(ours), now=timezone.now())


def describe_error(error: Error) -> str:
    """The error's kind and first line, and what to do if it is known. Passwords are in no driver's messages."""
    text = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}".removesuffix(": ")
    known = (
        f"The database lacks tables of this version: {_migrate_advice()}"
        if lacks_tables(error)
        else sqlite_advice(error)
    )
    return f"{text}. {known}" if known else text


_ahead_s: float | None = None
"""Of the time that passes, as it was last asked; None: the machine's clock is the shared one, or it never was."""


def read_shared_clock() -> datetime:
    """Asks the database, which may take its time and fail."""
    global _ahead_s
    if connection.vendor != "postgresql":
        return timezone.now()
    before = clock.passing()
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        at: datetime = cursor.fetchone()[0]
    after = clock.passing()
    _ahead_s = at.timestamp() - (before + after) / 2
    return shared_now()


def shared_now() -> datetime:
    """By the last look, which a node has each second, and without one by the machine's clock: anybody may ask."""
    return timezone.now() if _ahead_s is None else datetime.fromtimestamp(clock.passing() + _ahead_s, UTC)


def shared_time_of(at: float) -> datetime:
    """The shared time of what was `at` by this process's own clock (ingest.clock), a short while ago."""
    return shared_now() - timedelta(seconds=clock.now() - at)
