"""Rollups from the lake's Parquet to the database, by an upsert that may be repeated."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pyarrow.parquet as pq

from analytics.models import FIGURES, IDENTITY, METRIC_VERSION, Grain, Rollup
from ingest.models import Stream

Item = TypeVar("Item")

BATCH = 500
"""Rows in one transaction: short enough that an admission never waits long for SQLite's one writer."""

READ = ["start_us", "app", "name", "stream", *FIGURES]


def rollup_folder(lake: Path, grain: Grain) -> Path:
    """Where Spark writes a grain's rollups, partitioned by dt and, hours, by hr."""
    return lake / "rollups" / grain / "v=1"


def partition_folder(lake: Path, grain: Grain, start: datetime) -> Path:
    day = rollup_folder(lake, grain) / f"dt={start:%Y-%m-%d}"
    return day / f"hr={start:%H}" if grain == Grain.HOUR else day


def load(lake: Path, grain: Grain, start: datetime) -> int:
    """Makes the database's rows of an hour or a day equal to the lake's; how many there are."""
    streams = set(Stream.objects.values_list("pk", flat=True))
    rows = {(row["app"], row["name"]): row for row in _read(partition_folder(lake, grain, start))}
    for batch in _batches(list(rows.values())):
        Rollup.objects.bulk_create(
            [_rollup(grain, row, streams) for row in batch],
            update_conflicts=True,
            unique_fields=IDENTITY,
            update_fields=["stream", "metric_version", *FIGURES],
        )
    kept = Rollup.objects.filter(grain=grain, start=start).values_list("pk", "app", "name")
    stale = [pk for pk, app, name in kept if (app, name) not in rows]
    for pks in _batches(stale):
        Rollup.objects.filter(pk__in=pks).delete()
    return len(rows)


def _batches(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for first in range(0, len(items), BATCH):
        yield items[first : first + BATCH]


def _read(folder: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(folder.glob("*.parquet")):
        with pq.ParquetFile(file) as parquet:
            for batch in parquet.iter_batches(columns=READ):
                yield from batch.to_pylist()


def _rollup(grain: Grain, row: dict[str, Any], streams: set[int]) -> Rollup:
    stream = row.pop("stream")
    start = datetime.fromtimestamp(row.pop("start_us") / 1_000_000, UTC)
    return Rollup(
        grain=grain,
        start=start,
        stream_id=stream if stream in streams else None,  # Its row may have been deleted since.
        metric_version=METRIC_VERSION,
        **row,
    )
