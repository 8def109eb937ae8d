"""A process without a database to work on says so, and what to do."""

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import OperationalError
from psycopg import errors

from rtmpweb.checks import explain_database_error
from tests.background import free_port
from tests.postgres_server import PostgresServer
from tests.production.parts import Daphne
from tests.server_process import Installation

ROOT = Path(__file__).resolve().parents[2]

MANAGE = [sys.executable, "manage.py"]
CELERY = [sys.executable, "-m", "celery", "--quiet", "-A", "rtmpweb"]
AWAY = "postgresql://nobody@127.0.0.1:1/none"

WATCH = """
import json
from django.test import Client
from dashboard.system.watch import get_watch

watch = get_watch()
watch.start()
database = next(part for part in watch.report().parts if part.kind == "database")
watch.check_now()
client = Client(SERVER_NAME="localhost")
print(json.dumps({
    "kinds": [part.kind for part in watch.report().parts],
    "what": database.what,
    "advice": database.advice,
    "health": client.get("/healthz").json()["status"],
    "page": client.get("/login/").status_code,
}))
"""


def run(command: list[str], folder: Path, database_url: str) -> "subprocess.CompletedProcess[str]":
    own = {
        "RTMPWEB_DATA_DIR": str(folder),
        "DATABASE_URL": database_url,
        "RTMPWEB_RTMP": f"127.0.0.1:{free_port()}",
        "RTMPWEB_HTTP": "127.0.0.1:0",
        "RTMPWEB_MEDIA": "127.0.0.1:0",
    }
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, **own}, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("command", "database_url", "words"),
    [
        ([*MANAGE, "streamkey", "list", "live/demo"], "", "run `manage.py migrate`"),
        ([*MANAGE, "streamkey", "list", "live/demo"], AWAY, "The database does not answer"),
        ([*MANAGE, "runrtmp"], "", "run `manage.py migrate`"),
        ([*CELERY, "beat", "--pidfile="], "", "run `manage.py migrate`"),
        ([*CELERY, "worker", "-Q", "default"], "", "run `manage.py migrate`"),
        ([*CELERY, "beat", "--pidfile="], AWAY, "The database does not answer"),
    ],
)
def test_a_process_says_what_is_wrong_with_the_database(
    tmp_path: Path, command: list[str], database_url: str, words: str
) -> None:
    done = run(command, tmp_path, database_url)
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.django_db
def test_a_command_says_why_the_database_takes_no_writes() -> None:
    error = OperationalError("could not extend file")
    error.__cause__ = errors.DiskFull("could not extend file")
    said = "The database takes no writes. Its disk is full. Free space on the disk that the database is on."
    assert explain_database_error(error) == said


@pytest.mark.parametrize(
    "command",
    [
        [*MANAGE, "streamkey", "list", "live/demo"],
        [*MANAGE, "serve"],
        [*MANAGE, "runrtmp"],
        [*MANAGE, "runweb"],
        [*CELERY, "beat", "--pidfile="],
        [*CELERY, "worker", "-Q", "default"],
    ],
    ids=["a command", "serve", "runrtmp", "runweb", "beat", "worker"],
)
def test_a_damaged_file_is_named_with_a_way_out(tmp_path: Path, command: list[str]) -> None:
    file, kept = tmp_path / "rtmpweb.sqlite3", tmp_path / "copies" / "20260101T120000000000Z-7-0001_initial.sqlite3"
    file.write_bytes(b"This was a database once. " * 400)
    kept.parent.mkdir()
    kept.touch()
    done = run(command, tmp_path, "")
    assert done.returncode == 1
    assert f"The database {file} is damaged: file is not a database. " in done.stderr
    assert f"(the newest from before an upgrade is {kept})" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        [*MANAGE, "serve"],
        [*MANAGE, "migrate"],
        [*MANAGE, "runrtmp"],
        [*MANAGE, "runweb"],
        [*CELERY, "beat", "--pidfile="],
        [*CELERY, "worker", "-Q", "default"],
    ],
    ids=["serve", "migrate", "runrtmp", "runweb", "beat", "worker"],
)
def test_a_database_of_a_of_another_version_is_left_alone(tmp_path: Path, command: list[str]) -> None:
    installation = Installation(tmp_path)
    installation.put_tables()
    with contextlib.closing(sqlite3.connect(installation.database)) as database, database:
        database.execute(
            "INSERT INTO django_migrations (app, name, applied) VALUES ('ingest', '9999_later', '2030-01-01')"
        )
    done = run(command, tmp_path, "")
    assert done.returncode == 1
    assert "The database is of a newer version: it has ingest.9999_later, which this one does not know." in done.stderr
    assert "Traceback" not in done.stderr
    with contextlib.closing(sqlite3.connect(installation.database)) as database:
        assert database.execute("SELECT count(*) FROM auth_user").fetchone() == (0,), "nothing was made"
        assert database.execute("SELECT count(*) FROM ingest_node").fetchone() == (0,)


def test_a_web_process_that_looked_at_nothing_serves_nothing_of_a_of_another_version(tmp_path: Path) -> None:
    installation = Installation(tmp_path / "var")
    installation.put_tables()
    with contextlib.closing(sqlite3.connect(installation.database)) as database, database:
        database.execute(
            "INSERT INTO django_migrations (app, name, applied) VALUES ('ingest', '9999_later', '2030-01-01')"
        )
    web = Daphne(tmp_path, installation.environment)
    web.start()
    try:
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{web.url}/login/", timeout=10)  # noqa: S310 - its own address
        with refused.value as answer:
            assert answer.status == 503
            assert "The database does not fit this server" in answer.read().decode()
        assert web.log.count("The database is of a newer version: it has ingest.9999_later") == 1
    finally:
        web.stop()


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of one without a table."""
    if request.param == "sqlite":
        yield ""
        return
    server = PostgresServer(tmp_path)
    try:
        server.start()
        yield server.url
    finally:
        server.remove()


def test_a_web_process_tells_once_that_the_database_was_not_migrated(empty_database: str, tmp_path: Path) -> None:
    done = run([*MANAGE, "shell", "--no-imports", "-c", WATCH], tmp_path / "var", empty_database)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert "nodes" in told.pop("kinds"), "the other parts are told of, too"
    assert told == {
        "what": "The database lacks tables of this version",
        "advice": "Run `manage.py migrate`.",
        "health": "degraded",
        "page": 503,
    }
    assert done.stderr.count("manage.py migrate") == 1
    assert "Traceback" not in done.stderr
