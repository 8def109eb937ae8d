"""What the outages are measured with finds a node that stands still."""

import os
import signal
import time
from typing import Any

import pytest

from tests.production.installation import Production
from tests.production.outages.steady import LATE_MS, Steady
from tests.server_process import wait_for

pytestmark = [pytest.mark.production, pytest.mark.measures_time, pytest.mark.timeout(300)]

STOPPED_S = 0.25


def test_a_node_that_stands_still_is_late(production: Production, steady: Steady) -> None:
    node = next(iter(production.nodes.values()))
    steady.window()
    os.kill(node.pid, signal.SIGSTOP)
    time.sleep(STOPPED_S)
    os.kill(node.pid, signal.SIGCONT)
    windows: list[dict[str, Any]] = []

    def is_late() -> bool:
        windows.append(steady.window())
        return bool(windows[-1]["late_ms"] > LATE_MS)

    wait_for(is_late, timeout_s=5, what="what was sent meanwhile has come")
    assert windows[-1]["late_ms"] > 0.8 * STOPPED_S * 1000
    assert [window["faults"] for window in windows] == [[]] * len(windows)
