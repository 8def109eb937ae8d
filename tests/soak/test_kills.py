"""What tests/production/test_kill.py does, for as long as a machine can be spared: `make soak`.

KILLS_SEED in the environment repeats a run's moments.
"""

import os
import random
from pathlib import Path

import pytest

from tests.production.kills import KilledNode, lives, prepare

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3 * 3600)]

KILLS = 500


def test_five_hundred_kills_leave_nothing_behind(tmp_path: Path) -> None:
    seed = int(os.environ.get("KILLS_SEED") or random.randrange(1 << 32))
    keys = prepare(tmp_path / "prepared")
    (tmp_path / "node").mkdir()
    node = KilledNode(tmp_path / "prepared", tmp_path / "node", keys)
    try:
        node.run(lives(KILLS, seed))
    except AssertionError as fault:
        raise AssertionError(f"KILLS_SEED={seed}: {fault}") from fault
    assert node.checked
