"""What tests/analytics/test_chaos.py does, thirty times and with more hours: `make soak ARGS="-k chaos"`.

CHAOS_SEED in the environment repeats a run: its deeds and their order, though not the very moments.
"""

import os
import random
from pathlib import Path

import pytest

from tests.analytics.chaos import FULL, KILLS, TWO, Chaos, empty_database, endure
from tests.smalldisk import small_disk
from tests.tools import require_tool

pytestmark = [pytest.mark.soak, pytest.mark.timeout(4 * 3600), pytest.mark.django_db(transaction=True)]

TIMES = int(os.environ.get("CHAOS_TIMES", "30"))


def test_thirty_disturbed_runs_end_with_the_rows_of_a_clean_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    require_tool("java")
    seed = int(os.environ.get("CHAOS_SEED") or random.randrange(1 << 32))
    empty_database(tmp_path / "empty.sqlite3")
    disk, logs = tmp_path / "disk", tmp_path / "logs"
    disk.mkdir()
    logs.mkdir()
    with small_disk(disk, "600m") as may_be_filled:
        chaos = Chaos(disk, logs, seed, streams=10, hours=30, files_per_hour=4)
        try:
            endure(chaos, tmp_path / "empty.sqlite3", KILLS + TWO + (FULL if may_be_filled else ()), TIMES)
        except AssertionError as fault:
            raise AssertionError(f"seed {seed}, after {dict(chaos.did)}: {fault}") from fault
    with capsys.disabled():
        print(f"\nseed {seed}: {dict(chaos.did)}")  # noqa: T201
