# ruff: noqa: S608 (the SQL is the tests' own)
"""What tests/analytics/test_chaos.py and test_oracle.py do, thirty times and with a million samples; and a day of 1000
streams, 86 million samples, within a heap of 2 GB: every sum is DuckDB's, percentiles are near it.

`make soak ARGS="-k chaos"`, `"-k oracle"`, `"-k volume"`.
"""

import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest
from pytest_django.fixtures import Settings

from analytics import pipeline, runner, services
from analytics.models import AnalyticsRun, Rollup
from analytics.synthetic import Generated, World, generate
from analytics.tables import DAY, HOUR, partition_folder, table_folder
from bench.analytics import jvm
from bench.analytics.duck import DAY_US, HOUR_US, KINDS, MEASURES, Duck
from ingest.telemetry.lake import hour_folder
from tests.analytics import test_oracle as oracle
from tests.analytics.test_chaos import endure
from tests.tools import require_tool

pytestmark = pytest.mark.soak

CHAOS_TIMES = int(os.environ.get("CHAOS_TIMES", "30"))
START = datetime(2026, 3, 2, tzinfo=UTC)
HOURS = 24
STREAMS = 1000
NEEDED = 15_000_000_000
"""Bytes: the lake, what Spark shuffles, what DuckDB holds of an hour."""

SUMS = ("sessions", *MEASURES)
EXTREMES = ("peak_players", "peak_streams", *(f"{kind}_kbps_{figure}" for kind in KINDS for figure in ("min", "max")))
WITHIN = 0.01
"""So far a percentile may be off, as a part of it."""


@pytest.mark.timeout(4 * 3600)
@pytest.mark.django_db(transaction=True)
def test_chaos_in_thirty_runs_leaves_the_rows_of_a_clean_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    require_tool("java")
    done = endure(tmp_path, disk="600m", times=CHAOS_TIMES, streams=10, hours=30, files_per_hour=4)
    with capsys.disabled():
        print(f"\n{done}")  # noqa: T201


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Path]:
    require_tool("java")
    yield tmp_path
    runner.stop()


@pytest.mark.timeout(1800)
def test_an_oracle_makes_the_same_figures_of_a_million_samples(lake: Path) -> None:
    assert oracle.fill_with_disorder(lake, streams=95, start=START - timedelta(hours=3), hours=6) > 900_000
    with oracle.open_lake(lake) as duck:
        for grain in ("hour", "day"):
            oracle.load_grain(duck, lake, grain)
            oracle.check_columns(duck)
            for kind in oracle.KINDS:
                oracle.check_percentiles(duck, kind, of_most=50_000)


@pytest.fixture
def folder(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Removed at once, as pytest would keep it."""
    require_tool("java")
    monkeypatch.delenv("JDK_JAVA_OPTIONS")  # There is enough to do here that compiling for speed pays.
    free = shutil.disk_usage(tmp_path).free
    if free < NEEDED:
        pytest.skip(f"needs {NEEDED / 1e9:.0f} GB in {tmp_path}, where {free / 1e9:.0f} are free")
    settings.DATA_DIR, settings.LAKE_DIR = tmp_path, tmp_path / "lake"
    settings.SPARK_MASTER, settings.SPARK_MEMORY = "local[2]", "2g"
    try:
        yield tmp_path
    finally:
        runner.stop()
        shutil.rmtree(tmp_path)


@pytest.mark.timeout(3 * 3600)
@pytest.mark.django_db(transaction=True)
def test_day_volume_of_a_thousand_streams_fits_memory_and_matches_duckdb(folder: Path) -> None:
    lake = folder / "lake"
    made = generate(lake, streams=STREAMS, start=START, hours=HOURS, world=World(always_on=1.0))
    assert made.samples > 85_000_000
    perform(lake)
    assert jvm.peak_rss_mb() < 3500
    look_at_hours(lake, folder, made)
    assert Rollup.objects.filter(grain="hour").count() == count(lake, HOUR)
    assert Rollup.objects.filter(grain="day").count() == count(lake, DAY)


def perform(lake: Path) -> None:
    run = services.create_run(trigger=AnalyticsRun.Trigger.COMMAND, kind=AnalyticsRun.Kind.ALL)
    claimed = services.claim(run_id=run.pk)
    assert claimed is not None
    pipeline.perform(claimed, lake=lake)
    run.refresh_from_db()
    assert run.error == ""


def look_at_hours(lake: Path, folder: Path, made: Generated) -> None:
    """Hour by hour, then the day: its sums are those of DuckDB's hours."""
    hours = [START + timedelta(hours=number) for number in range(HOURS)]
    files = {hour: sorted(hour_folder(lake, "samples", hour).glob("*.parquet")) for hour in hours}
    duck = Duck(2, folder)
    try:
        duck.know_broadcasts([file for of_hour in files.values() for file in of_hour])
        expected = folder / "expected"
        expected.mkdir()
        for hour in hours:
            theirs = duck.whole(files[hour]).rename(expected / f"{hour:%H}.parquet")
            ours = f"{partition_folder(lake, HOUR, hour)}/*.parquet"
            same(ours, f"SELECT * FROM read_parquet('{theirs}')", SUMS + EXTREMES)
            assert duck.worst_percentile(files[hour], ours, HOUR_US) <= WITHIN
        sums = ", ".join(f"sum({name}) AS {name}" for name in MEASURES)
        day = f"SELECT dimension, app_, name_, value_, {sums} FROM read_parquet('{expected}/*.parquet') GROUP BY ALL"
        ours = f"{partition_folder(lake, DAY, START)}/*.parquet"
        same(ours, day, tuple(MEASURES))
        everything = [file for of_hour in files.values() for file in of_hour]
        assert duck.worst_percentile(everything, ours, DAY_US) <= WITHIN
        total = f"SELECT sum(samples) FROM ({day}) WHERE dimension = 'stream'"
        assert duckdb.execute(total).fetchall() == [(made.samples,)]
    finally:
        duck.close()


def same(ours: str, theirs: str, columns: tuple[str, ...]) -> None:
    """Each row of both has the other's figures."""
    keys = "dimension = their.dimension AND our.app = app_ AND our.name = name_ AND our.value = value_"
    wrong = ", ".join(f"count(*) FILTER (our.{name} IS DISTINCT FROM their.{name}) AS {name}" for name in columns)
    query = f"""
        SELECT {wrong} FROM (
            SELECT * FROM read_parquet('{ours}', hive_partitioning = false) WHERE samples > 0
        ) our FULL JOIN ({theirs}) their ON our.{keys}
    """
    assert dict(zip(columns, duckdb.execute(query).fetchall()[0], strict=True)) == dict.fromkeys(columns, 0)


def count(lake: Path, table: str) -> int:
    rows = duckdb.execute(f"SELECT count(*) FROM read_parquet('{table_folder(lake, table)}/**/*.parquet')").fetchall()
    return int(rows[0][0])
