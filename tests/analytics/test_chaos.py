"""Runs that are killed, robbed of Java or the disk, or overtaken leave what one clean run makes. More: tests/soak."""

from pathlib import Path

import pytest

from tests.analytics.chaos import FULL, KILLS, TWO, Chaos, empty_database, endure
from tests.smalldisk import small_disk
from tests.tools import require_tool

pytestmark = [pytest.mark.spark, pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]

SEED = 7
TIMES = 3


def test_disturbed_runs_end_with_the_rows_of_a_clean_one(tmp_path: Path) -> None:
    require_tool("java")
    empty_database(tmp_path / "empty.sqlite3")
    disk, logs = tmp_path / "disk", tmp_path / "logs"
    disk.mkdir()
    logs.mkdir()
    with small_disk(disk, "300m") as may_be_filled:
        chaos = Chaos(disk, logs, SEED, streams=3, hours=2, files_per_hour=2)
        endure(chaos, tmp_path / "empty.sqlite3", KILLS + TWO + (FULL if may_be_filled else ()), TIMES)
