"""What tests/production/test_reconnecting.py does, for five minutes: `make soak`."""

import random
from pathlib import Path

import pytest

from tests.production.reconnecting import reconnect

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

SECONDS = 300


def test_five_minutes_of_reconnecting_leave_one_session_each(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    try:
        reconnect(tmp_path, SECONDS, seed)
    except AssertionError as fault:
        raise AssertionError(f"seed {seed}: {fault}") from fault
