"""What tests/analytics/test_chaos.py does, thirty times and with more hours: `make soak ARGS="-k chaos"`."""

import os
from pathlib import Path

import pytest

from tests.analytics.chaos import endure
from tests.tools import require_tool

pytestmark = [pytest.mark.soak, pytest.mark.timeout(4 * 3600), pytest.mark.django_db(transaction=True)]

TIMES = int(os.environ.get("CHAOS_TIMES", "30"))


def test_thirty_disturbed_runs_end_with_the_rows_of_a_clean_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    require_tool("java")
    done = endure(tmp_path, disk="600m", times=TIMES, streams=10, hours=30, files_per_hour=4)
    with capsys.disabled():
        print(f"\n{done}")  # noqa: T201
