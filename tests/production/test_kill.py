"""`kill -9` of a media node at 20 random moments leaves nothing that its next start does not put right."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.production.kills import KilledNode, prepare

pytestmark = [pytest.mark.production, pytest.mark.timeout(300)]

NODES = 2
KILLS = 10
"""Of each node."""


def test_twenty_kills_leave_nothing_behind(tmp_path: Path) -> None:
    keys = prepare(tmp_path / "prepared")
    nodes = []
    for number in range(NODES):
        folder = tmp_path / f"node-{number}"
        folder.mkdir()
        nodes.append(KilledNode(tmp_path / "prepared", folder, keys, seed=number))
    with ThreadPoolExecutor(NODES) as threads:
        for done in [threads.submit(node.run, KILLS) for node in nodes]:
            done.result()
    assert sum(node.checked for node in nodes) >= NODES, "some lived long enough to be looked at"
