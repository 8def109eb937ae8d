"""The DuckDB side of `bench analytics`, which the soak test of a day also compares with."""

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import duckdb

from analytics.synthetic import World, generate
from bench.analytics.duck import GROUPS, Duck


def test_it_counts_each_sample_once_in_each_dimension(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    start = datetime(2026, 3, 2, 20, tzinfo=UTC)
    made = generate(lake, streams=4, start=start, hours=1, world=World(twice=1.0, always_on=1.0))
    samples = sorted(lake.glob("samples/v=1/*/*/*.parquet"))
    counted = "SELECT dimension, sum(samples), count(*) FROM read_parquet($file) GROUP BY ALL"
    with closing(Duck(1, tmp_path)) as duck:
        whole = str(duck.whole(samples))
        found = duckdb.execute(counted, {"file": whole}).fetchall()
        assert {dimension: count for dimension, count, _ in found} == dict.fromkeys(GROUPS, made.samples)
        summed = {dimension: sums[3] for dimension, _, *sums in duck.sums(whole)}
        assert summed == dict.fromkeys(GROUPS, made.samples)
        file = duck.streams_alone(samples)
        alone = duckdb.execute("SELECT sum(samples) FROM read_parquet($file)", {"file": str(file)})
        assert alone.fetchall() == [(2 * made.samples,)]
