"""A PostgreSQL, a server of its own, that refuses connections, for want of room or for something else, or is frozen."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from django.db import OperationalError

from dashboard.system.probes import has_no_room
from tests import commands
from tests.background import Dialog
from tests.production.parts import PostgresServer

CONNECT = """
from django.db import OperationalError, connection
from dashboard.system.probes import has_no_room

try:
    connection.ensure_connection()
except OperationalError as error:
    print(has_no_room(error))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    with PostgresServer(tmp_path_factory.mktemp("postgres")) as made:
        with psycopg.connect(made.url, autocommit=True) as connection:
            connection.execute("CREATE ROLE narrow LOGIN CONNECTION LIMIT 0")
            connection.execute("CREATE ROLE shut NOLOGIN")
        yield made


@pytest.mark.parametrize(
    ("role", "database", "expected"),
    [("narrow", "postgres", "True"), ("shut", "postgres", "False"), ("tester", "nowhere", "False")],
    ids=["a limit", "a role", "a name"],
)
def test_only_connection_limit_errors_count_as_no_room(
    server: PostgresServer, tmp_path: Path, role: str, database: str, expected: str
) -> None:
    url = f"postgresql://{role}@127.0.0.1:{server.port}/{database}"
    told = commands.run(
        ["shell", "--no-imports", "-c", CONNECT], {"RTMPWEB_DATA_DIR": str(tmp_path), "DATABASE_URL": url}, 60
    )
    assert told.stdout.split() == [expected], told.stderr


@pytest.mark.parametrize(
    "said",
    [
        "FATAL:  sorry, too many clients already",
        "FATAL:  remaining connection slots are reserved for roles with the SUPERUSER attribute",
    ],
)
def test_connection_limit_is_recognized_by_the_error_message(said: str) -> None:
    """Which the driver gives without a code, as there was no connection."""
    assert has_no_room(OperationalError(f'connection to server at "127.0.0.1", port 5432 failed: {said}'))


SCRIPT = """
import json, sys, threading, time
from django.db import OperationalError, connection
from dashboard.system import probes

frozen = threading.Event()
told = {}

def ask():
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        print("connected", flush=True)
        frozen.wait()
        try:
            cursor.execute("SELECT 1")
        except OperationalError as error:
            told["error"] = type(error).__name__

waiting = threading.Thread(target=ask, daemon=True)
waiting.start()
sys.stdin.readline()
told["idle"] = probes.break_hanging_connections()
frozen.set()
deadline = time.monotonic() + 5
while not (broken := probes.break_hanging_connections()) and time.monotonic() < deadline:
    time.sleep(0.01)
waiting.join(5)
print(json.dumps(told | {"broken": broken, "waits": waiting.is_alive()}), flush=True)
"""


def test_a_query_that_hangs_is_broken_and_an_idle_connection_is_not(server: PostgresServer, tmp_path: Path) -> None:
    environment = {**os.environ, "RTMPWEB_DATA_DIR": str(tmp_path / "var"), "DATABASE_URL": server.url}
    with Dialog("manage.py", "shell", "--no-imports", "-c", SCRIPT, environment=environment) as process:
        assert process.read() == "connected"
        server.pause()
        told = json.loads(process.ask(""))
        server.resume()
    assert told == {"idle": 0, "error": "OperationalError", "broken": 1, "waits": False}
