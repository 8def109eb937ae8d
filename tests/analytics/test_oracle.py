# ruff: noqa: S608 (the SQL is the tests' own)
"""A million samples of two days: each figure of each dimension equals what DuckDB makes of the same files."""

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from analytics import runner
from analytics.synthetic import World, generate
from analytics.tables import table_folder
from tests.analytics import oracle
from tests.analytics.lakes import compute

pytestmark = pytest.mark.spark

START = datetime(2026, 3, 2, 21, tzinfo=UTC)
HOURS = 6


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, jvm: None) -> Path:
    """From 21:00 to 3:00: with bad uplinks, files that came twice, samples that were lost, and a node of a former
    version, computed two hours at a time.
    """
    lake = tmp_path_factory.mktemp("oracle")
    made = generate(
        lake, streams=95, start=START, hours=HOURS, files_per_hour=4, world=World(bad=0.4, twice=0.1, players=20)
    )
    assert made.samples > 900_000
    for number, file in enumerate(sorted(lake.glob("samples/v=1/*/*/*.parquet"))):
        records = pq.ParquetFile(file).read()
        if records["node"][0].as_py().endswith("1"):
            pq.write_table(records.drop_columns(["encoder", "target_kbps", "media_faults"]), file)
        elif number % 5 == 0:
            pq.write_table(pq.ParquetFile(file).read().slice(200, records.num_rows - 20_000), file)
    events = next(lake.glob("events/v=1/*/*/*.parquet"))
    shutil.copy(events, events.with_name("copy.parquet"))
    with runner.spark() as spark:
        compute(spark, lake, hours_at_once=2)
    return lake


@pytest.fixture(scope="module")
def duck(lake: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with oracle.prepared(lake) as prepared:
        yield prepared


@pytest.fixture(scope="module", params=["hour", "day"])
def found(request: pytest.FixtureRequest, lake: Path, duck: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """With the tables `found`, `expected` and `measured` of a grain."""
    oracle.expect(duck, request.param)
    files = f"read_parquet('{table_folder(lake, request.param)}/**/*.parquet', hive_partitioning = false)"
    duck.execute(f"create or replace table found as from {files}")
    return duck


def test_sums_extremes_and_counts_are_the_same(found: duckdb.DuckDBPyConnection) -> None:
    columns = [column[0] for column in found.execute("from expected limit 0").description]
    assert {"stream", "unplanned_ends", "peak_at_us", "video_kbps_mean"} < set(columns)
    assert set(found.execute("from found limit 0").df()) - set(columns) == {
        f"{kind}_{figure}" for kind in oracle.KINDS for figure in ("sketch", "kbps_p5", "kbps_p50", "kbps_p95")
    }
    names = {row[0] for row in found.execute("select distinct dimension from found").fetchall()}
    assert names == {"stream", "key", "app", "encoder", "node", "broadcast"}
    for column in set(columns) - set(oracle.KEY.split(", ")):  # A row that is missing differs in all others.
        wrong = found.execute(oracle.differences(column)).fetchall()
        assert wrong == [], column


def test_nothing_that_is_measured_is_the_same_by_chance(found: duckdb.DuckDBPyConnection) -> None:
    """The made-up days have to have all of it."""
    for column in (*oracle.COUNTS, *oracle.EVENTS, "starved_ms", "below_ms", "gop_10", "media_faults", "bad_ms"):
        assert found.execute(f"select sum({column}) from expected where dimension = 'node'").fetchall() > [(0,)], column


@pytest.mark.parametrize("kind", oracle.KINDS)
def test_quantiles_have_their_ranks(found: duckdb.DuckDBPyConnection, kind: str) -> None:
    assert found.execute(oracle.ranks(kind, within=0.02)).fetchall() == []
    of_most = found.execute("select max(samples) from found").fetchall()
    assert of_most > [(50_000,)]
