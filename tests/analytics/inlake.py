"""Hours of the database brought to the lake, as a run would have computed them, and loaded as the settings say."""

from collections.abc import Iterable
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from analytics import schemas
from analytics.histograms import PACKED
from analytics.jobs.computing import ROWS_TOGETHER
from analytics.loading import load
from analytics.models import FIGURES, METRIC_VERSION, Grain, Partition, Rollup
from analytics.tables import HOUR, RENAMED, figures_file
from ingest.telemetry.writer import EARLIEST

BY_SIZE = ["app", "encoder", "node"]
"""What RTMPWEB_HOURS_IN_DATABASE has where streams are many."""


def bring(lake: Path, since: datetime = EARLIEST, until: datetime | None = None) -> None:
    """Hours go to the lake; of what was in the database that stays which the settings say."""
    found = Rollup.objects.filter(grain=Grain.HOUR, start__gte=since)
    if until:
        found = found.filter(start__lt=until)
    rows = found.order_by("start", "dimension", "app", "name", "value")
    for start, own in groupby(list(rows), key=lambda row: row.start):
        count = write(lake, start, own)
        Partition.objects.update_or_create(
            grain=Grain.HOUR,
            start=start,
            defaults={"state": "done", "metric_version": METRIC_VERSION, "rows_written": count, "fingerprint": "f"},
        )
        load(lake, Grain.HOUR, start, lambda: True)


def write(lake: Path, start: datetime, rows: Iterable[Rollup]) -> int:
    file = figures_file(lake, HOUR, start)
    file.parent.mkdir(parents=True, exist_ok=True)
    every = [_row(row) for row in rows]
    table = pa.Table.from_pylist(every, schemas.arrow(schemas.ROLLUPS))
    pq.write_table(table, file, row_group_size=ROWS_TOGETHER)
    return len(every)


def _row(row: Rollup) -> dict[str, Any]:
    found = {name: getattr(row, name) for name in ("start", "dimension", "app", "name", "value", *FIGURES)}
    for name, column in RENAMED.items():
        at = found.pop(name)
        found[column] = None if at is None else int(at.timestamp()) * 1_000_000
    found |= {name: sorted(found[name].items()) for name in ("refusals", "end_reasons")}
    histogram = np.frombuffer(bytes(row.video_histogram), PACKED)
    return found | {
        "stream": row.stream_id,
        "video_histogram": [{"bucket": int(bucket), "count": int(count)} for bucket, count in histogram],
        "audio_histogram": [],
        "wire_histogram": [],
        "players_sketch": None,
    }
