"""Management commands of the tests' installations (`tests/commands.py`)."""

import subprocess
from pathlib import Path

import pytest

from tests.rtmpweb import processes
from tests.server_process import Installation, wait_for

STAYS = "import os, pathlib, signal; pathlib.Path({file!r}).write_text(str(os.getpid())); signal.pause()"


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
