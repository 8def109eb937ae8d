"""What a file has of sessions, events and samples."""

from collections.abc import Iterator
from typing import Any

from ingest.models import Session
from ingest.telemetry.series import COUNTERS, GAUGES, Series

MOST_ROWS = 50_000

TOTALS = ("bytes_in", "bytes_out", "video_frames", "audio_frames", "keyframes")
FIELDS = (
    *("id", "kind", "app", "name", "is_test", "started_at", "ended_at", "end_reason", "end_description", "address"),
    *("encoder", "node", "key", "video_codec", "audio_codec", "width", "height"),
    *TOTALS,
)
EVENT_FIELDS = ("sequence", "at", "kind", "level", "code", "description", "detail")


def session_values(row: Session) -> dict[str, Any]:
    """A session's row of an export. A key goes by its label: no part of a secret is in it."""
    values = {name: getattr(row, name) for name in FIELDS} | {name: row.total(name) for name in TOTALS}
    return values | {"id": str(row.pk), "node": row.node.name if row.node else None, "key": str(row.key or "") or None}


def series_rows(series: Series) -> tuple[list[str], Iterator[list[Any]]]:
    """Columns and rows of a series: seconds since the epoch, gauges (with their extremes where they are gathered)."""
    gathered = series.step_s > 0
    parts = [(name, series.values) for name in (*GAUGES, *COUNTERS)]
    names = [name for name, _ in parts]
    if gathered:
        names += [f"{name}_{end}" for name in GAUGES for end in ("min", "max")]
        parts += [(name, which) for name in GAUGES for which in (series.low, series.high)]
    rows = (
        [at, health, *(columns[name][place] for name, columns in parts)]
        for place, (at, health) in enumerate(zip(series.at, series.health, strict=True))
    )
    return ["at", "health", *names], rows
