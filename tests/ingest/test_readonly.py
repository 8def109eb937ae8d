"""Why a write was refused, by the errors of both databases."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from django.db import Error, InternalError, OperationalError
from psycopg import errors

from ingest.services import database
from tests.postgres_server import PostgresServer

ROOT = Path(__file__).resolve().parents[2]

STANDBY = """
from django.db import Error, connection
from ingest import readonly
try:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE tried (number integer)")
except Error as error:
    print(readonly.is_refused(error), readonly.cause(error).why)
"""


def full(file: Path) -> None:
    with closing(sqlite3.connect(file)) as database:
        (pages,) = database.execute("PRAGMA page_count").fetchone()
        database.execute(f"PRAGMA max_page_count = {pages}")
        database.execute("INSERT INTO some VALUES (zeroblob(100000))")


def read_only(file: Path) -> None:
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as database:
        database.execute("DELETE FROM some")


def locked(file: Path) -> None:
    with closing(sqlite3.connect(file)) as other, closing(sqlite3.connect(file, timeout=0)) as database:
        other.execute("BEGIN IMMEDIATE")
        database.execute("DELETE FROM some")


def no_table(file: Path) -> None:
    with closing(sqlite3.connect(file)) as opened:
        opened.execute("DELETE FROM others")


def as_django_raises_it(error: Exception, kind: type[Error] = OperationalError) -> Error:
    raised = kind(str(error))
    raised.__cause__ = error
    return raised


@pytest.mark.parametrize(
    ("write", "cause"),
    [
        (full, database.FULL),
        (read_only, database.FILE),
        (locked, database.LOCKED),
        (no_table, database.OTHER_CAUSE),
    ],
)
def test_sqlite(tmp_path: Path, write: Callable[[Path], None], cause: database.Cause) -> None:
    file = tmp_path / "some.sqlite3"
    with closing(sqlite3.connect(file)) as opened:
        opened.execute("CREATE TABLE some (bytes blob)")
    with pytest.raises(sqlite3.OperationalError) as raised:
        write(file)
    assert database.write_failure_cause(as_django_raises_it(raised.value)) is cause


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (as_django_raises_it(errors.DiskFull("could not extend file")), database.FULL),
        (as_django_raises_it(errors.ReadOnlySqlTransaction("read-only"), InternalError), database.READ_ONLY),
        (as_django_raises_it(errors.DeadlockDetected("deadlock detected")), database.OTHER_CAUSE),
    ],
)
def test_postgresql(error: Error, cause: database.Cause) -> None:
    assert database.write_failure_cause(error) is cause
    assert database.is_write_refused(error) is (cause is database.READ_ONLY)


def test_a_standby_is_known_as_one(tmp_path: Path) -> None:
    server = PostgresServer(tmp_path)
    try:
        server.start()
        server.restart(standby=True)
        done = subprocess.run(
            [sys.executable, "manage.py", "shell", "--no-imports", "-c", STANDBY],
            cwd=ROOT,
            env={**os.environ, "RTMPWEB_DATA_DIR": str(tmp_path / "var"), "DATABASE_URL": server.url},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        server.remove()
    assert done.stdout == "True It is a standby.\n", done.stderr
