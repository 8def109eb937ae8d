"""What the tests run beside them: ports for programs; installations, with their commands and their tables."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests import background
from tests.background import Background, Dialog, free_port
from tests.rtmpweb import processes
from tests.server_process import Installation, wait_for

FEW = 30_000 + os.getpid() % 400 * 6
"""Six behind `PORTS`; other runs of the tests have others."""

DRAW = f"""
from tests import background
background.PORTS = range({FEW}, {FEW + 6})
print(*(background.free_port() for _ in range(3)), flush=True)
input()
"""


def test_free_port_returns_no_port_twice_across_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though nobody listens there yet."""
    monkeypatch.setattr(background, "PORTS", range(FEW, FEW + 6))
    with Dialog("-c", DRAW) as other:
        others = {int(word) for word in other.read().split()}
        mine = {free_port() for _ in range(3)}
    assert others | mine == set(background.PORTS)


FORKS = """
import os, signal, time
print("forks", flush=True)
for _ in range(400):
    if not os.fork():
        signal.pause()
    time.sleep(0.005)
signal.pause()
"""


def is_stopped(pid: int) -> bool:
    return (processes.PROC / str(pid) / "stat").read_text().rpartition(") ")[2].startswith("T")


def pause_for_a_while(program: Background, fewest: int) -> int:
    """Pause the program while it starts processes. Return how many processes it had; all of them must have stopped."""
    wait_for(lambda: len(processes.descendants(program.pid)) >= fewest, timeout_s=10, what=f"{fewest} of them run")
    program.pause()
    there = processes.descendants(program.pid)
    wait_for(lambda: all(map(is_stopped, there)), timeout_s=5, what="all of them are stopped")
    assert processes.descendants(program.pid) == there
    program.resume()
    return len(there)


def test_a_program_that_is_paused_stands_still_though_it_starts_processes_all_the_time(tmp_path: Path) -> None:
    """Also the processes that it started while we looked for them."""
    with Background("forks", [sys.executable, "-c", FORKS], folder=tmp_path, ready="forks") as program:
        count = 0
        for _ in range(5):
            count = pause_for_a_while(program, count + 5)


STAYS = "import os, pathlib, signal; pathlib.Path({file!r}).write_text(str(os.getpid())); signal.pause()"


@pytest.mark.matrix
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
    changed = installation.rows("SELECT date_changed FROM django_celery_beat_periodictask")
    assert changed
    assert all(at >= began for (at,) in changed)
