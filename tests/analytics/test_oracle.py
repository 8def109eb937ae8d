# ruff: noqa: S608 (the SQL is the tests' own)
"""Three hours of two days: each figure of each dimension equals what DuckDB makes of the same files. A million samples
of six hours: tests/soak.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from analytics.jobs import computing
from tests.analytics import oracle

pytestmark = pytest.mark.spark

START = datetime(2026, 3, 2, 22, tzinfo=UTC)
HOURS = 3


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, jvm: None) -> Path:
    """Two hours at once, as if their samples were so many that Spark compiles what it does, and one after midnight."""
    lake = tmp_path_factory.mktemp("oracle")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(computing, "FEW_ROWS", 2_000)
        patch.setattr(computing, "FEW_BYTES", 1_000_000)
        assert oracle.disordered(lake, streams=24, start=START, hours=HOURS) > 90_000
    return lake


@pytest.fixture(scope="module")
def duck(lake: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with oracle.prepared(lake) as prepared:
        yield prepared


@pytest.fixture(scope="module", params=["hour", "day"])
def found(request: pytest.FixtureRequest, lake: Path, duck: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    oracle.bring(duck, lake, request.param)
    return duck


def test_sums_extremes_and_counts_equal_those_of_the_oracle(found: duckdb.DuckDBPyConnection) -> None:
    oracle.check_columns(found)


def test_each_measured_column_of_the_test_data_is_above_zero(found: duckdb.DuckDBPyConnection) -> None:
    """The made-up days have to have all of it."""
    for column in (
        *oracle.COUNTS,
        *oracle.EVENTS,
        "starved_ms",
        "below_ms",
        "gop_10",
        "media_faults",
        "bad_ms",
        "viewer_ms",
    ):
        assert found.execute(f"select sum({column}) from expected where dimension = 'node'").fetchall() > [(0,)], column


@pytest.mark.parametrize("kind", oracle.KINDS)
def test_percentiles_are_within_a_hundredth_of_the_oracle(found: duckdb.DuckDBPyConnection, kind: str) -> None:
    oracle.check_percentiles(found, kind, of_most=20_000)
