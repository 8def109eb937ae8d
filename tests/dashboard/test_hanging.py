"""A PostgreSQL that is frozen, a server of its own: who waits for it is given an error."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres_server import PostgresServer
from tests.server_process import ROOT

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


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[PostgresServer]:
    server = PostgresServer(tmp_path)
    try:
        server.start()
        yield server
    finally:
        server.resume()
        server.remove()


def test_a_query_that_hangs_is_broken_and_an_idle_connection_is_not(postgres: PostgresServer, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "manage.py", "shell", "--no-imports", "-c", SCRIPT],
        cwd=ROOT,
        env={**os.environ, "RTMPWEB_DATA_DIR": str(tmp_path / "var"), "DATABASE_URL": postgres.url},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "connected\n"
        postgres.pause()
        process.stdin.write("\n")
        process.stdin.flush()
        told = json.loads(process.stdout.readline())
    assert told == {"idle": 0, "error": "OperationalError", "broken": 1, "waits": False}
