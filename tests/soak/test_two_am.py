"""The healthy streams of tests/e2e/test_two_am.py, for so long that every check could have opened: `make soak`."""

from pathlib import Path

import pytest

from tests.e2e.night import HEALTHY, at_night

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]

SECONDS = 360
"""The longest mean is of five minutes."""


def test_healthy_streams_raise_nothing_in_six_minutes(tmp_path: Path) -> None:
    with at_night(tmp_path, HEALTHY) as night:
        night.stays_healthy(HEALTHY, SECONDS)
