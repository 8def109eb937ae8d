"""Thirty publishers that reconnect at random leave one live session each, and nothing else.

It measures answers: one that a busy machine keeps for 2 s is a refusal. Of others there may be few.
"""

from pathlib import Path

import pytest

from tests.production.reconnecting import ENDS, reconnect

pytestmark = [
    pytest.mark.production,
    pytest.mark.measures_time,
    pytest.mark.timeout(240),  # A first start alone has READY_S, and publishers have STAY_S to come together.
]

SECONDS = 14
"""Some two hundred lives; the latter half of them after what the server holds was looked at first."""


def test_reconnecting_leaves_one_session_each(tmp_path: Path) -> None:
    ends = reconnect(tmp_path, SECONDS, seed=0)
    assert set(ends) == set(ENDS)
