"""The SQLite file: closed to others, copied before it is migrated, and what to do when it can't be used."""

import errno
import logging
import os
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.db import DatabaseError, connection
from django.db.backends.signals import connection_created

from ingest import private

logger = logging.getLogger(__name__)

BESIDE = ("-wal", "-shm", "-journal")
"""The names' endings of what SQLite keeps beside a database."""

COPIES = "copies"
COPY = re.compile(r"\d{8}T\d{12}Z-(?P<state>\d+)-(?P<migration>\w+)\.sqlite3")
"""A copy's name: when it was made, and of which state: how many migrations are in it, and ingest's last. By name, the
newest is the last."""

ROOM_BESIDE = 64 << 20
"""Bytes that a copy leaves free for those who write meanwhile."""

DAMAGED = (
    "The database {file} is damaged: {said}. Stop all processes that use it, move it away with {name}-wal and "
    "{name}-shm, and put {copy} in its place; or have `sqlite3 {file} .recover` save what can be read of it."
)
CLOSED = (
    "The database {file} can't be used: {said}. Let this user read and write it and its folder, or name another by "
    "RTMPWEB_DATA_DIR or DATABASE_URL."
)
WORDS = {
    sqlite3.SQLITE_CORRUPT: DAMAGED,
    sqlite3.SQLITE_NOTADB: DAMAGED,
    sqlite3.SQLITE_CANTOPEN: CLOSED,
    sqlite3.SQLITE_READONLY: CLOSED,
}
"""By SQLite's primary result codes, which are the lowest 8 bits of all others."""


def file() -> Path | None:
    """The database's; None: it is in no file."""
    if connection.vendor != "sqlite" or _is_in_memory(connection):
        return None
    return Path(connection.settings_dict["NAME"])


def _is_in_memory(connection: Any) -> bool:
    return bool(connection.is_in_memory_db())


# --- Modes ---

_closed: set[str] = set()
"""Databases that this process has seen to."""


def close_to_others(connection: Any, **kwargs: object) -> None:
    """Once a process: SQLite gives what it makes beside a database the database's own mode."""
    if connection.vendor != "sqlite" or _is_in_memory(connection):
        return
    name = str(connection.settings_dict["NAME"])
    if name not in _closed:
        _closed.add(name)
        for ending in ("", *BESIDE):
            private.close(Path(name + ending))


connection_created.connect(close_to_others, dispatch_uid="ingest.sqlite")


# --- Copies ---


def keep_copy(*, state: int, migration: str, now: datetime) -> None:
    """The database as it is, for who wants to go back; those of the latest RTMPWEB_KEEP_COPIES states stay.

    One of each state, its last: starts that fail again and again within a migration leave the copy from before it.
    Raises CommandError.
    """
    database = file()
    if database is None or not settings.KEEP_COPIES:
        return
    copy = _folder() / f"{now:%Y%m%dT%H%M%S%fZ}-{state}-{migration}.sqlite3"
    try:
        copy.parent.mkdir(mode=private.FOLDER, parents=True, exist_ok=True)
        for left in copy.parent.glob("*.partial"):  # By one that was killed.
            left.unlink()
        _look_for_room(database, copy.parent)
        _copy(database, copy)
        _prune(copy)
    except (OSError, sqlite3.Error) as error:
        if advice(error):
            raise DatabaseError(str(error)) from error
        said = error.strerror if isinstance(error, OSError) else error
        raise CommandError(
            f"The database can't be copied to {copy.parent} before it is brought up to date: {said}. Make room there, "
            "or make it a link to a folder that has some; with a copy of your own, set RTMPWEB_KEEP_COPIES=0."
        ) from None
    logger.info("The database was copied to %s before it is brought up to date.", copy)


def newest_copy(fits: Callable[[str], bool] = bool) -> Path | None:
    """Of those that end with a migration that `fits`."""
    found = [copy for copy in _copies() if fits(_part(copy, "migration"))]
    return found[-1] if found else None


def _folder() -> Path:
    return Path(settings.DATA_DIR, COPIES)


def _copies() -> list[Path]:
    """By age, the oldest first."""
    return sorted(path for path in _folder().glob("*.sqlite3") if COPY.fullmatch(path.name))


def _part(copy: Path, part: str) -> str:
    found = COPY.fullmatch(copy.name)
    return found[part] if found else ""


def _prune(made: Path) -> None:
    former = [copy for copy in _copies() if copy != made]
    same = [copy for copy in former if _part(copy, "state") == _part(made, "state")]
    others = [copy for copy in former if copy not in same]
    for copy in same + others[: max(0, len(others) + 1 - settings.KEEP_COPIES)]:
        copy.unlink()


def _look_for_room(database: Path, folder: Path) -> None:
    there = [database.with_name(database.name + ending) for ending in ("", "-wal")]
    size = sum(path.stat().st_size for path in there if path.exists())
    free = shutil.disk_usage(folder).free
    if free < size + ROOM_BESIDE:
        raise OSError(errno.ENOSPC, f"it takes {size >> 20} MiB, and {free >> 20} MiB are free there")


def _copy(database: Path, copy: Path) -> None:
    """Under its name only when it is whole, and on the disk."""
    partial = copy.with_suffix(".partial")
    try:
        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, private.FILE))
        with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(partial)) as target:
            source.backup(target)
        with partial.open("rb") as written:
            os.fsync(written.fileno())
        partial.rename(copy)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


# --- Trouble ---


def advice(error: BaseException) -> str:
    """What is wrong with the file, and what to do, if the error is SQLite's own of it; else empty."""
    cause = error if isinstance(error, sqlite3.Error) else error.__cause__
    words = WORDS.get(getattr(cause, "sqlite_errorcode", 0) & 0xFF)
    if words is None:
        return ""
    database, copy = Path(connection.settings_dict["NAME"]), newest_copy()
    kept = f"a copy (the newest from before an upgrade is {copy})" if copy else "a copy of your own"
    return words.format(file=database, name=database.name, said=cause, copy=kept)
