"""`kill -9` of a media node at 4 random moments leaves nothing that its next start does not put right.

KILLS_SEED in the environment repeats a run's moments. `make soak` kills 500 times.
"""

import os
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.production.kills import KilledNode, lives, prepare

pytestmark = [
    pytest.mark.production,
    pytest.mark.timeout(300),
    pytest.mark.slow("the whole server starts, or ends, as processes"),
]

NODES = 2
KILLS = 4
"""Of all nodes together."""


def test_four_kills_leave_nothing_behind(tmp_path: Path) -> None:
    seed = int(os.environ.get("KILLS_SEED") or random.randrange(1 << 32))
    keys = prepare(tmp_path / "prepared")
    nodes = []
    for number in range(NODES):
        folder = tmp_path / f"node-{number}"
        folder.mkdir()
        nodes.append(KilledNode(tmp_path / "prepared", folder, keys))
    lengths = lives(KILLS, seed)
    try:
        with ThreadPoolExecutor(NODES) as threads:
            each = [threads.submit(node.run, lengths[number::NODES]) for number, node in enumerate(nodes)]
            for done in each:
                done.result()
        assert sum(node.checked for node in nodes) >= NODES, "some lived long enough to be looked at"
    except AssertionError as fault:
        raise AssertionError(f"KILLS_SEED={seed}: {fault}") from fault
