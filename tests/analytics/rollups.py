"""Rollups and ledger rows as the jobs load them, with their histograms of bitrates and sketches of players."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from django.db.models import F
from django.utils import timezone

from analytics.figures import RANKS, SUM_FIELDS
from analytics.histograms import PACKED, buckets, quantiles
from analytics.models import FIGURES, METRIC_VERSION, Dimension, Grain, Partition, Rollup

HOUR = timedelta(hours=1)
HOUR_MS = 3_600_000
MONDAY = datetime(2026, 11, 2, tzinfo=UTC)

EMPTY: dict[str, Any] = {
    name: 0 for name in FIGURES if "_kbps_" not in name and name not in {"keyframe_interval_max", "peak_at"}
} | {"refusals": {}, "end_reasons": {}}

USUAL = {
    "samples": 3600,
    "sessions": 2,
    "elapsed_ms": HOUR_MS,
    "live_ms": 3_540_000,
    "good_ms": 3_540_000,
    "video_bytes": 1_125_000_000,
    "out_bytes": 2_500_000_000,
    "video_frames": 99,
    "missing_frames_est": 1,
    "player_ms": 90_000_000,
    "peak_players": 1234,
    "keyframe_interval_max": 4.25,
    "video_kbps_mean": 2500.0,
    "video_kbps_p5": 2000.0,
    "video_kbps_p50": 2500.5,
    "video_kbps_p95": 3000.0,
}


def pack_histogram(values: Sequence[float]) -> bytes:
    counts = Counter(buckets(np.array(values, float)).tolist())
    return np.array(sorted(counts.items()), PACKED).tobytes()


def hours_ago(hours: int = 0) -> datetime:
    """Return the start of an hour; 0 is the current one."""
    return timezone.now().astimezone(UTC).replace(minute=0, second=0, microsecond=0) - hours * HOUR


def save_rollup(
    path: str,
    start: datetime,
    *,
    kbps: Sequence[float] = (),
    grain: Grain = Grain.HOUR,
    dimension: Dimension = Dimension.STREAM,
    value: str | None = None,
    **figures: Any,
) -> Rollup:
    """Save a rollup that counts nothing but `figures` and the bitrates `kbps` of its samples.

    Args:
        path: `app/name`, or the application alone, or empty.
        value: The path if None.
    """
    app, _, name = path.partition("/")
    row: dict[str, Any] = {"grain": grain, "start": start, "dimension": dimension, "app": app, "name": name}
    row |= {**EMPTY, "value": path if value is None else value, "metric_version": METRIC_VERSION}
    row |= {"video_histogram": pack_histogram(kbps), "samples": len(kbps), "unique_players": None}
    least, most = min(kbps, default=None), max(kbps, default=None)
    low, middle, high = quantiles([row["video_histogram"]], RANKS, least=least, most=most)
    rates = {"min": least, "p5": low, "p50": middle, "p95": high, "max": most}
    row |= {f"video_kbps_{name}": rate for name, rate in rates.items()}
    row |= {"kbps_sum": sum(map(round, kbps)), "kbps_squares": sum(round(each) ** 2 for each in kbps)}
    return Rollup.objects.create(**row | figures)


def make_rollup(
    ago: int = 0,
    name: str = "cam-1",
    grain: Grain = Grain.HOUR,
    *,
    start: datetime | None = None,
    dimension: Dimension = Dimension.STREAM,
    value: str | None = None,
    values: Sequence[float] = (),
    **fields: Any,
) -> Rollup:
    """Save a rollup of the application live with the usual figures.

    Args:
        ago: The number of hours since its hour, unless there is a `start`.
        values: The samples' bitrates for its histogram.
    """
    at = start or hours_ago(ago)
    path = {Dimension.APP: "live", Dimension.ENCODER: "", Dimension.NODE: ""}.get(dimension, f"live/{name}")
    return save_rollup(
        path,
        at.replace(hour=0) if grain == Grain.DAY else at,
        kbps=values,
        grain=grain,
        dimension=dimension,
        value=f"live/{name}" if value is None else value,
        **{**USUAL, "unique_players": 0, **({"samples": len(values)} if values else {}), **fields},
    )


def make_live_hour(path: str, start: datetime, *, kbps: float = 6000, **figures: Any) -> Rollup:
    """Save an hour on air without trouble, for a stream and added to its application's."""
    whole: dict[str, Any] = dict.fromkeys(("elapsed_ms", "live_ms", "good_ms", "targeted_ms"), HOUR_MS)
    whole |= dict.fromkeys(("video_kbps_p5", "video_kbps_p50", "video_kbps_p95"), kbps)
    video_bytes = int(kbps * HOUR_MS / 8)
    whole |= {"video_bytes": video_bytes, "out_bytes": 10 * video_bytes, "video_frames": 108_000, "gop_2": 1800}
    whole |= {"player_ms": 10 * HOUR_MS, "peak_players": 12, "peak_at": start + timedelta(minutes=7)}
    whole |= {"peak_streams": 1, "keyframe_interval_max": 2.0, **figures}
    app = path.partition("/")[0]
    known = Rollup.objects.filter(dimension=Dimension.APP, value=app, start=start)
    if known.exists():
        known.update(**{name: F(name) + whole[name] for name in SUM_FIELDS if name in whole})
    else:
        save_rollup(app, start, kbps=[kbps] * 60, dimension=Dimension.APP, **whole)
    return save_rollup(path, start, kbps=[kbps] * 60, **whole)


def mark_done(start: datetime, hours: int = 1, **fields: Any) -> None:
    """Note in the ledger that these hours were computed."""
    row = {"grain": Grain.HOUR, "state": Partition.State.DONE, "metric_version": METRIC_VERSION, "fingerprint": "f"}
    for number in range(hours):
        Partition.objects.create(**{"start": start + number * HOUR, **row, **fields})
