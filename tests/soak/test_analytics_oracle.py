"""What tests/analytics/test_oracle.py does, with a million samples: `make soak ARGS="-k oracle"`."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from analytics import runner
from tests.analytics import oracle
from tests.tools import require_tool

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

START = datetime(2026, 3, 2, 21, tzinfo=UTC)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Path]:
    require_tool("java")
    yield tmp_path
    runner.stop()


def test_a_million_samples_have_the_figures_that_duckdb_makes_of_them(lake: Path) -> None:
    assert oracle.disordered(lake, streams=95, start=START, hours=6) > 900_000
    with oracle.prepared(lake) as duck:
        for grain in ("hour", "day"):
            oracle.bring(duck, lake, grain)
            oracle.check_columns(duck)
            for kind in oracle.KINDS:
                oracle.check_percentiles(duck, kind, of_most=50_000)
