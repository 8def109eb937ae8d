"""Rollups from the lake's Parquet to the database, by an upsert that may be repeated."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pyarrow.parquet as pq
from django.db import connection, transaction

from analytics.histograms import pack
from analytics.locks import LockLost
from analytics.models import FIGURES, IDENTITY, METRIC_VERSION, PACKED, Grain, Rollup
from analytics.tables import figures_file
from ingest.models import Stream

Item = TypeVar("Item")

BATCH = 100
PAUSE_S = 0.03
"""Rows in one transaction, and the time until the next: SQLite has one writer, and who waits for it looks but now and
then. So an admission never waits long.
"""

OWN = ("dimension", "app", "name", "value")
"""What tells an hour's or a day's rows apart."""

TIMES = {"start": "start_us", "peak_at": "peak_at_us"}
READ = [
    *OWN,
    "stream",
    *PACKED,
    *TIMES.values(),
    *(name for name in FIGURES if name not in TIMES),
]


def load(lake: Path, grain: Grain, start: datetime, still_ours: Callable[[], bool]) -> int:
    """Makes the database's rows of an hour or a day equal to the lake's; how many there are.

    Raises LockLost once `still_ours` says, within a batch's transaction, that another has taken the work up.
    """
    streams = set(Stream.objects.values_list("pk", flat=True))
    loaded: set[tuple[str, ...]] = set()
    for rows in _read(figures_file(lake, grain, start)):
        loaded.update(tuple(row[name] for name in OWN) for row in rows)
        made = [_rollup(grain, row, streams) for row in rows]
        with _ours(still_ours):
            Rollup.objects.bulk_create(
                made,
                update_conflicts=True,
                unique_fields=IDENTITY,
                update_fields=["stream", *PACKED, "metric_version", *FIGURES],
            )
    there = Rollup.objects.filter(grain=grain, start=start).values_list("pk", *OWN)
    for pks in _batches([pk for pk, *own in there if tuple(own) not in loaded]):
        with _ours(still_ours):
            Rollup.objects.filter(pk__in=pks).delete()
    return len(loaded)


@contextmanager
def _ours(still_ours: Callable[[], bool]) -> Iterator[None]:
    with transaction.atomic():
        if not still_ours():
            raise LockLost
        yield
    if connection.vendor == "sqlite":
        time.sleep(PAUSE_S)


def _batches(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for first in range(0, len(items), BATCH):
        yield items[first : first + BATCH]


def _read(file: Path) -> Iterator[list[dict[str, Any]]]:
    """Batches of rows: of an hour with many streams there are too many for memory."""
    if file.exists():
        with pq.ParquetFile(file) as parquet:
            for batch in parquet.iter_batches(BATCH, columns=READ):
                yield batch.to_pylist()


def _rollup(grain: Grain, row: dict[str, Any], streams: set[int]) -> Rollup:
    times = {field: _time(row.pop(column)) for field, column in TIMES.items()}
    stream = row.pop("stream")
    return Rollup(
        grain=grain,
        stream_id=stream if stream in streams else None,  # Its row may have been deleted since.
        video_histogram=pack(row.pop("video_histogram")),
        players_sketch=row.pop("players_sketch") or b"",
        refusals=dict(row.pop("refusals")),
        end_reasons=dict(row.pop("end_reasons")),
        metric_version=METRIC_VERSION,
        **times,
        **row,
    )


def _time(micros: int | None) -> datetime | None:
    return None if micros is None else datetime.fromtimestamp(micros // 1_000_000, UTC)
