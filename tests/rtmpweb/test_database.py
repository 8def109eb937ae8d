"""A process without a database or folder to work on says so; and how long those wait that decide for a media node."""

import contextlib
import json
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.conf import settings
from django.db import OperationalError
from psycopg import errors

from ingest import command_line
from rtmpweb.checks import explain_database_error
from tests.background import free_port
from tests.production.parts import Daphne, PostgresServer
from tests.rtmpweb.processes import CELERY, MANAGE, PROGRAMS, SHELL, run
from tests.server_process import Installation

AWAY = "postgresql://nobody@127.0.0.1:1/none"
UNMADE, UNANSWERED = "manage.py migrate`", "The database does not answer"

PROCESSES: dict[str, tuple[str | Path, ...]] = {
    "a command": (*MANAGE, "streamkey", "list", "live/demo"),
    "migrate": (*MANAGE, "migrate"),
    "serve": (*MANAGE, "serve"),
    "runrtmp": (*MANAGE, "runrtmp"),
    "runweb": (*MANAGE, "runweb"),
    "beat": (*CELERY, "beat", "--pidfile="),
    "worker": (*CELERY, "worker", "-Q", "default"),
    "daphne": (PROGRAMS / "daphne", "-p", "0", "rtmpweb.asgi:application"),
}

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


def one_of(first: str, *others: str) -> list[Any]:
    """Return parameters of which `make test` tries only the first: each starts a process."""
    return [first, *(pytest.param(each, marks=pytest.mark.matrix) for each in others)]


def refusal(process: str, folder: Path, database_url: str = "") -> str:
    own = {
        "RTMPWEB_DATA_DIR": str(folder),
        "DATABASE_URL": database_url,
        "RTMPWEB_RTMP": f"127.0.0.1:{free_port()}",
        "RTMPWEB_HTTP": "127.0.0.1:0",
        "RTMPWEB_MEDIA": "127.0.0.1:0",
    }
    done = run(*PROCESSES[process], environment=own)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    return done.stderr


def shell(script: str, folder: Path, database_url: str = "") -> tuple[dict[str, Any], str]:
    """What a script prints, of a process with this data folder, and what it complains of."""
    done = run(*SHELL, script, environment={"RTMPWEB_DATA_DIR": str(folder), "DATABASE_URL": database_url})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


@pytest.mark.parametrize(
    ("process", "database_url", "words"),
    [
        ("a command", "", UNMADE),
        ("a command", AWAY, UNANSWERED),
        ("runrtmp", "", UNMADE),
        ("beat", "", UNMADE),
        ("worker", "", UNMADE),
        ("beat", AWAY, UNANSWERED),
    ],
)
def test_a_process_says_what_is_wrong_with_the_database(
    tmp_path: Path, process: str, database_url: str, words: str
) -> None:
    assert words in refusal(process, tmp_path, database_url)


@pytest.mark.django_db
def test_a_command_says_why_the_database_takes_no_writes() -> None:
    error = OperationalError("could not extend file")
    error.__cause__ = errors.DiskFull("could not extend file")
    said = "The database takes no writes. Its disk is full. Free space on the disk that the database is on."
    assert explain_database_error(error) == said


@pytest.mark.parametrize("process", one_of("a command", "serve", "runrtmp", "runweb", "beat", "worker"))
def test_a_damaged_file_is_named_with_a_way_out(tmp_path: Path, process: str) -> None:
    file, kept = tmp_path / "rtmpweb.sqlite3", tmp_path / "copies" / "20260101T120000000000Z-7-0001_initial.sqlite3"
    file.write_bytes(b"This was a database once. " * 400)
    kept.parent.mkdir()
    kept.touch()
    said = refusal(process, tmp_path)
    assert f"The database {file} is damaged: file is not a database. " in said
    assert f"(the newest from before an upgrade is {kept})" in said


@pytest.fixture
def newer(tmp_path: Path) -> Installation:
    installation = Installation(tmp_path / "var")
    installation.put_tables()
    with contextlib.closing(sqlite3.connect(installation.database)) as database, database:
        database.execute(
            "INSERT INTO django_migrations (app, name, applied) VALUES ('ingest', '9999_later', '2030-01-01')"
        )
    return installation


@pytest.mark.parametrize("process", one_of("migrate", "serve", "runrtmp", "runweb", "beat", "worker"))
def test_a_database_of_a_newer_version_is_left_alone(newer: Installation, process: str) -> None:
    said = "The database is of a newer version: it has ingest.9999_later, which this one does not know."
    assert said in refusal(process, newer.folder)
    with contextlib.closing(sqlite3.connect(newer.database)) as database:
        for table in ("auth_user", "ingest_node"):
            assert database.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,), "nothing was made"  # noqa: S608


def test_web_process_on_a_newer_database_is_503_and_logs_it_once(newer: Installation, tmp_path: Path) -> None:
    with Daphne(tmp_path, newer.environment) as web:
        answer = httpx.get(f"{web.url}/login/", timeout=10)
        assert answer.status_code == 503
        assert "The database does not fit this server" in answer.text
        assert web.log.count("The database is of a newer version: it has ingest.9999_later") == 1


@pytest.fixture
def postgresql(tmp_path: Path) -> Iterator[str]:
    """The URL of an empty database of a server of its own."""
    with PostgresServer(tmp_path) as server:
        yield server.url


@pytest.mark.parametrize("kind", one_of("sqlite", "postgresql"))
def test_a_web_process_tells_once_that_the_database_was_not_migrated(
    request: pytest.FixtureRequest, kind: str, tmp_path: Path
) -> None:
    url = request.getfixturevalue("postgresql") if kind == "postgresql" else ""
    told, complaints = shell(WATCH, tmp_path / "var", url)
    assert "nodes" in told.pop("kinds"), "the other parts are told of, too"
    assert told == {
        "what": "The database lacks tables of this version",
        "advice": f"Run `{command_line.short('migrate')}`.",
        "health": "degraded",
        "page": 503,
    }
    assert complaints.count("manage.py migrate") == 1
    assert "Traceback" not in complaints


@pytest.mark.parametrize("process", one_of(*(name for name in PROCESSES if name != "migrate")))
def test_a_data_folder_that_cant_be_made_is_named(tmp_path: Path, process: str) -> None:
    """A file stands where it should be; others get the same of rights that they lack."""
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "var"
    (line,) = refusal(process, folder).splitlines()
    assert line.startswith(f"RTMPWEB_DATA_DIR: the folder {folder} can't be made: Not a directory. ")
    assert line.endswith(" or set RTMPWEB_DATA_DIR to another folder.")


# --- Who decides for a media node ---

LIMITS = """
import json, time
from django.db import OperationalError, connection
from ingest import command_line
from ingest.consumers import decisions

def ask(statement):
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchone()[0]

def slow():
    limit = ask("SHOW statement_timeout")  # It connects too, which is not what is measured.
    began = time.monotonic()
    try:
        ask("SELECT pg_sleep(10)")
    except OperationalError:
        return limit, time.monotonic() - began

socket = connection.get_connection_params()
write, read = decisions.WRITE.submit(slow), decisions.READ.submit(slow)
print(json.dumps({
    "write": write.result(),
    "read": read.result(),
    "elsewhere": ask("SHOW statement_timeout"),
    "unanswered_ms": socket["tcp_user_timeout"],
    "keepalives": [socket[f"keepalives_{name}"] for name in ("idle", "interval", "count")],
}))
"""


def test_a_media_nodes_statements_have_a_limit_and_others_have_none(postgresql: str, tmp_path: Path) -> None:
    found, _ = shell(LIMITS, tmp_path / "var", postgresql)
    for thread in ("write", "read"):
        limit, took_s = found[thread]
        assert limit == "1500ms"
        assert 1.4 < took_s < 8
    assert found["elsewhere"] == "0"
    assert found["unanswered_ms"] == 5000
    assert found["keepalives"] == [5, 2, 3]


PATIENCE = """
import json
from django.conf import settings
from django.db import connection
from ingest.consumers import decisions

def fill():
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS filled (x BLOB)")
        cursor.execute("INSERT INTO filled VALUES (randomblob(10000000))")

def patience():
    with connection.cursor() as cursor:
        return cursor.execute("PRAGMA busy_timeout").fetchone()[0] / 1000

def size():
    return connection.ensure_connection() or settings.DATABASES["default"]["NAME"].stat().st_size

began = size()
decisions.WRITE.submit(fill).result()
decided = size()
fill()
found = {"began": began, "decided": decided, "elsewhere": size()}
threads = {"write": decisions.WRITE, "read": decisions.READ}
print(json.dumps(found | {name: executor.submit(patience).result() for name, executor in threads.items()}))
"""


def test_sqlite_wal_checkpoints_run_outside_the_admission_connections(tmp_path: Path) -> None:
    """And those who decide wait for another's lock less than a decision may take."""
    found, _ = shell(PATIENCE, tmp_path)
    assert found["decided"] == found["began"] < 100_000
    assert found["elsewhere"] > 20_000_000
    assert found["write"] == found["read"] == settings.DATABASE_TIMEOUT_S == 1.5


# --- SQLite's files ---

MODES = """
import json, os, stat
from django.conf import settings
from django.db import connection
os.umask(0o022)
connection.cursor().execute("CREATE TABLE made (x)")
print(json.dumps({path.name: stat.S_IMODE(path.stat().st_mode) for path in settings.DATA_DIR.glob("rtmpweb.sqlite3*")}))
"""


def test_database_files_and_folder_are_private_to_the_user(tmp_path: Path) -> None:
    """A command, too, whatever the umask is: and so are the files beside it. Those of before are corrected."""
    names = ["rtmpweb.sqlite3", "rtmpweb.sqlite3-shm", "rtmpweb.sqlite3-wal"]
    assert shell(MODES, tmp_path / "var")[0] == dict.fromkeys(names, 0o600)
    (tmp_path / "var").chmod(0o755)
    (tmp_path / "var" / names[0]).chmod(0o644)
    assert shell(MODES.replace("made", "more"), tmp_path / "var")[0] == dict.fromkeys(names, 0o600)
    assert stat.S_IMODE((tmp_path / "var").stat().st_mode) == 0o700
