"""The tests' installations: their management commands (`tests/commands.py`) and their tables."""

import sqlite3
import subprocess
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.rtmpweb import processes
from tests.server_process import Installation, wait_for

STAYS = "import os, pathlib, signal; pathlib.Path({file!r}).write_text(str(os.getpid())); signal.pause()"


@pytest.mark.slow("the project is imported twice, and a command's time has to pass")
def test_a_command_whose_time_is_over_is_gone_and_the_next_one_runs(tmp_path: Path) -> None:
    installation = Installation(tmp_path / "var")
    installation.put_tables()
    installation.manage("application", "set", "live")
    file = tmp_path / "pid"
    with pytest.raises(subprocess.TimeoutExpired):
        installation.manage("shell", "--no-imports", "-c", STAYS.format(file=str(file)), timeout_s=4)
    pid = int(file.read_text())
    wait_for(lambda: pid not in processes.parents(), timeout_s=5, what="the command's process has ended")
    assert "key" in installation.create_key("live/cam")


def test_a_schedule_counts_from_when_the_tables_were_copied(tmp_path: Path) -> None:
    """They are of an earlier run, and since then a time may have passed that beat would make up for."""
    began = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"
    installation = Installation(tmp_path / "var")
    installation.put_tables()
    with closing(sqlite3.connect(installation.database)) as database:
        changed = database.execute("SELECT date_changed FROM django_celery_beat_periodictask").fetchall()
    assert changed
    assert all(at >= began for (at,) in changed)
