"""PostgreSQL, a server of its own on a free port: no statement of a media node waits without a limit."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres_server import PostgresServer

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """
import json, time
from django.db import OperationalError, connection
from ingest.consumers import database

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
print(json.dumps({
    "write": database.WRITE.submit(slow).result(),
    "read": database.READ.submit(slow).result(),
    "elsewhere": ask("SHOW statement_timeout"),
    "unanswered_ms": socket["tcp_user_timeout"],
    "keepalives": [socket[f"keepalives_{name}"] for name in ("idle", "interval", "count")],
}))
"""


@pytest.fixture
def database_url(tmp_path: Path) -> Iterator[str]:
    server = PostgresServer(tmp_path)
    try:
        server.start()
        yield server.url
    finally:
        server.remove()


def test_a_media_nodes_statements_have_a_limit_and_others_have_none(database_url: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "shell", "--no-imports", "-c", SCRIPT],
        cwd=ROOT,
        env={**os.environ, "RTMPWEB_DATA_DIR": str(tmp_path / "var"), "DATABASE_URL": database_url},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for thread in ("write", "read"):
        limit, took_s = found[thread]
        assert limit == "1500ms"
        assert 1.4 < took_s < 8
    assert found["elsewhere"] == "0"
    assert found["unanswered_ms"] == 5000
    assert found["keepalives"] == [5, 2, 3]
