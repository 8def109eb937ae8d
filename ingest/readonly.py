"""Why the database takes no writes although it answers, in words for an operator."""

import sqlite3
from dataclasses import dataclass

from django.db import Error, InterfaceError, InternalError, OperationalError, connection

PASSING = (OperationalError, InterfaceError, InternalError)
"""What the database raises while it is away, is busy, or takes no writes (PostgreSQL: InternalError). It passes."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Both are whole sentences. `act`: what ends it."""

    why: str
    act: str


STANDBY = Cause("It is a standby.", "Let DATABASE_URL name the primary, or promote this one.")
READ_ONLY = Cause(
    "Its transactions are read-only.", "Find out who has set default_transaction_read_only, and set it back."
)
FILE = Cause("Its file, its folder or their disk is read-only.", "Let the server write to its data folder again.")
DISK = Cause("Its disk fails, or became read-only.", "Look at the system's log, and at that disk.")
FULL = Cause("Its disk is full.", "Free space on the disk that the database is on.")
LOCKED = Cause("Something keeps it locked.", "Find what writes for so long, such as a backup or a VACUUM, and end it.")
SILENT = Cause(
    "A write gets no answer.", "Find what holds locks (pg_stat_activity), or which synchronous standby is away."
)
OTHER = Cause("It refuses them.", "Look at the database's log, and at the rights of its user.")

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


def is_refused(error: BaseException) -> bool:
    """Whether PostgreSQL refused a write as it takes none. SQLite's are OperationalErrors, as all that passes is."""
    return isinstance(error, Error) and sqlstate(error) == READ_ONLY_STATE


def sqlstate(error: Error) -> str:
    """What PostgreSQL calls it; "" where another database said it. Its driver is loaded only where it is used."""
    return getattr(error.__cause__, "sqlstate", None) or ""


def cause(error: Error) -> Cause:
    """Why a write failed. Not to be called within a transaction: PostgreSQL is asked whether it is a standby."""
    found = _by_driver(error)
    return STANDBY if found is READ_ONLY and _is_standby() else found


def _by_driver(error: Error) -> Cause:
    if isinstance(error.__cause__, sqlite3.Error):
        return SQLITE.get(getattr(error.__cause__, "sqlite_errorcode", 0) & 0xFF, OTHER)
    return POSTGRESQL.get(sqlstate(error), OTHER)


def _is_standby() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_is_in_recovery()")
            return bool(cursor.fetchone()[0])
    except Error:
        return False
