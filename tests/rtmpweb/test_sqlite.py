"""SQLite on a slow disk: what a media node decides doesn't wait until the log is in the database's file."""

import json
import os
import subprocess
import sys
from pathlib import Path

from django.conf import settings

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """
import json
from django.conf import settings
from django.db import connection
from ingest.consumers import database

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
database.WRITE.submit(fill).result()
decided = size()
fill()
found = {"began": began, "decided": decided, "elsewhere": size()}
threads = {"write": database.WRITE, "read": database.READ}
print(json.dumps(found | {name: executor.submit(patience).result() for name, executor in threads.items()}))
"""


def test_the_log_is_brought_into_the_file_by_others_than_those_who_decide(tmp_path: Path) -> None:
    """And those who decide wait for another's lock less than a decision may take."""
    done = subprocess.run(
        [sys.executable, "manage.py", "shell", "--no-imports", "-c", SCRIPT],
        cwd=ROOT,
        env={**os.environ, "RTMPWEB_DATA_DIR": str(tmp_path), "DATABASE_URL": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["decided"] == found["began"] < 100_000
    assert found["elsewhere"] > 20_000_000
    assert found["write"] == found["read"] == settings.DATABASE_TIMEOUT_S == 1.5
