"""Free space of a disk that may hang."""

import threading
from pathlib import Path

import pytest

from ingest.disk import DiskSpace
from tests.ingest.hangingdisk import HangingDisk


def test_it_is_known_a_moment_after_it_was_asked(tmp_path: Path) -> None:
    disk = DiskSpace(tmp_path)
    assert disk.free_percent(0.0) is None
    disk.ask(0.0)
    disk.wait(5.0)
    free = disk.free_percent(1.0)
    assert free is not None
    assert 0 < free <= 100
    disk.close()


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    disk = DiskSpace(tmp_path / "nowhere")
    disk.ask(0.0)
    disk.wait(5.0)
    assert (disk.free_percent(1.0), disk.hangs_s(1.0)) == (None, 0.0)
    disk.close()


def test_one_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging, disk = HangingDisk(monkeypatch), DiskSpace(tmp_path)
    hanging.let_go()
    disk.ask(0.0)
    disk.wait(5.0)
    hanging.hang()
    threads = threading.active_count()
    for now in range(1, 9):
        disk.ask(float(now))
        assert disk.hangs_s(float(now)) == now - 1
        assert (disk.free_percent(float(now)) is None) == (now > 5), "what it said before holds for a while"
    disk.wait(0.0)
    assert threading.active_count() == threads, "one question at a time"
    hanging.let_go()
    disk.wait(5.0)
    assert disk.hangs_s(9.0) == 0.0
    assert disk.free_percent(9.0) is not None
    disk.close()
