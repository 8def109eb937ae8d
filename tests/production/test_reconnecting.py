"""Thirty publishers that reconnect at random leave one live session each, and nothing else."""

from pathlib import Path

import pytest

from tests.production.reconnecting import ENDS, reconnect

pytestmark = [pytest.mark.production, pytest.mark.measures_time, pytest.mark.timeout(240)]

SECONDS = 60


def test_a_minute_of_reconnecting_leaves_one_session_each(tmp_path: Path) -> None:
    ends = reconnect(tmp_path, SECONDS, seed=0)
    assert set(ends) == set(ENDS)
