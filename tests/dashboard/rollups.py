"""Rollups as the Spark jobs load them, for tests of pages and API."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.utils import timezone

from analytics.models import FIGURES, METRIC_VERSION, Dimension, Grain, Rollup
from tests.analytics.packed import packed

EMPTY: dict[str, Any] = {
    name: 0 for name in FIGURES if "_kbps_" not in name and name not in {"keyframe_interval_max", "peak_at"}
} | {
    "refusals": {},
    "end_reasons": {},
}

USUAL = {
    "samples": 3600,
    "sessions": 2,
    "elapsed_ms": 3_600_000,
    "live_ms": 3_540_000,
    "good_ms": 3_540_000,
    "video_bytes": 1_125_000_000,
    "out_bytes": 2_500_000_000,
    "video_frames": 99,
    "missing_frames_est": 1,
    "player_ms": 90_000_000,
    "peak_players": 1234,
    "keyframe_interval_max": 4.25,
    "video_kbps_p5": 2000.0,
    "video_kbps_p50": 2500.5,
    "video_kbps_p95": 3000.0,
    "video_kbps_mean": 2500.0,
}


def hour(hours_ago: int = 0) -> datetime:
    """The begin of an hour."""
    return timezone.now().astimezone(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=hours_ago)


def make_rollup(
    hours_ago: int = 0,
    name: str = "cam-1",
    grain: Grain = Grain.HOUR,
    *,
    start: datetime | None = None,
    dimension: Dimension = Dimension.STREAM,
    value: str | None = None,
    values: Sequence[float] = (),
    **fields: Any,
) -> Rollup:
    """An hour (or a day) with the usual figures. `values`: the samples' bitrates that its histogram is of."""
    at = start or hour(hours_ago)
    is_of_stream = dimension in {Dimension.STREAM, Dimension.KEY, Dimension.BROADCAST}
    app = "live" if is_of_stream or dimension == Dimension.APP else ""
    return Rollup.objects.create(
        **{
            "grain": grain,
            "start": at.replace(hour=0) if grain == Grain.DAY else at,
            "dimension": dimension,
            "app": app,
            "name": name if is_of_stream else "",
            "value": f"live/{name}" if value is None else value,
            "metric_version": METRIC_VERSION,
            "video_histogram": packed(values),
            **EMPTY,
            **USUAL,
            **({"samples": len(values)} if values else {}),
            **fields,
        }
    )
