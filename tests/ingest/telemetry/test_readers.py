"""What others find in the lake."""

import re
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.conf import settings

from ingest.telemetry.lake import SAMPLES
from tests.ingest.telemetry.records import sample


@pytest.mark.parametrize("older", [min, max], ids=["older first", "newer first"])
def test_the_documented_query_reads_files_that_lack_a_new_column(tmp_path: Path, older: Callable[..., str]) -> None:
    (query,) = re.findall(
        r"^```sql\n(.*?)```", (Path(settings.BASE_DIR) / "docs" / "analytics.md").read_text(), re.M | re.S
    )
    names = ["a.parquet", "b.parquet"]
    folder = tmp_path / "samples" / "v=1" / "dt=2026-03-29" / "hr=12"
    folder.mkdir(parents=True)
    batch = SAMPLES.batch([sample(0, media_faults=3)])
    for name in names:
        is_older = name == older(names)
        written = batch.drop_columns("media_faults") if is_older else batch
        pq.write_table(pa.Table.from_batches([written]), folder / name)
    assert duckdb.execute(query.replace("LAKE", str(tmp_path))).fetchall() == [("live", "demo", 3)]
