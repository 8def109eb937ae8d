"""SQLite's files: whose they are, and that what a media node decides doesn't wait for a slow disk."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

from django.conf import settings

ROOT = Path(__file__).resolve().parents[2]

MODES = """
import json, os, stat
from django.conf import settings
from django.db import connection
os.umask(0o022)
connection.cursor().execute("CREATE TABLE made (x)")
print(json.dumps({path.name: stat.S_IMODE(path.stat().st_mode) for path in settings.DATA_DIR.glob("rtmpweb.sqlite3*")}))
"""

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


def shell(script: str, folder: Path) -> dict[str, Any]:
    """What a script prints, of a process with this data folder."""
    done = subprocess.run(
        [sys.executable, "manage.py", "shell", "--no-imports", "-c", script],
        cwd=ROOT,
        env={**os.environ, "RTMPWEB_DATA_DIR": str(folder), "DATABASE_URL": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_whoever_makes_a_database_makes_it_for_this_user_alone(tmp_path: Path) -> None:
    """A command, too, whatever the umask is: and so are the files beside it. Those of before are corrected."""
    names = ["rtmpweb.sqlite3", "rtmpweb.sqlite3-shm", "rtmpweb.sqlite3-wal"]
    assert shell(MODES, tmp_path / "var") == dict.fromkeys(names, 0o600)
    (tmp_path / "var").chmod(0o755)
    (tmp_path / "var" / names[0]).chmod(0o644)
    assert shell(MODES.replace("made", "more"), tmp_path / "var") == dict.fromkeys(names, 0o600)
    assert stat.S_IMODE((tmp_path / "var").stat().st_mode) == 0o700


def test_the_log_is_brought_into_the_file_by_others_than_those_who_decide(tmp_path: Path) -> None:
    """And those who decide wait for another's lock less than a decision may take."""
    found = shell(SCRIPT, tmp_path)
    assert found["decided"] == found["began"] < 100_000
    assert found["elsewhere"] > 20_000_000
    assert found["write"] == found["read"] == settings.DATABASE_TIMEOUT_S == 1.5
