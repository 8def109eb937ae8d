"""Rollups and ledger rows as the jobs write them, for reports of them."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import F

from analytics.figures import RANKS, SUMMED
from analytics.histograms import quantiles
from analytics.models import FIGURES, METRIC_VERSION, Dimension, Grain, Partition, Rollup
from tests.analytics.packed import packed

HOUR = timedelta(hours=1)
MONDAY = datetime(2026, 11, 2, tzinfo=UTC)
H_MS = 3_600_000


def rollup(
    path: str,
    start: datetime,
    *,
    kbps: Sequence[float] = (),
    dimension: Dimension = Dimension.STREAM,
    value: str = "",
    **figures: Any,
) -> Rollup:
    """A saved hour: of a stream (app/name), or of an application without a name. `kbps`: its samples' bitrates."""
    app, _, name = path.partition("/")
    row = Rollup(
        grain=Grain.HOUR,
        start=start,
        dimension=dimension,
        app=app,
        name=name,
        value=value or path,
        metric_version=METRIC_VERSION,
        samples=len(kbps),
        video_kbps_min=min(kbps, default=None),
        video_kbps_max=max(kbps, default=None),
        video_histogram=packed(kbps),
        kbps_sum=sum(map(round, kbps)),
        kbps_squares=sum(round(each) ** 2 for each in kbps),
    )
    own = quantiles([bytes(row.video_histogram)], RANKS, least=min(kbps, default=0.0), most=max(kbps, default=0.0))
    row.video_kbps_p5, row.video_kbps_p50, row.video_kbps_p95 = own
    for field in FIGURES:
        if field not in figures and getattr(row, field) is None and not Rollup._meta.get_field(field).null:
            figures[field] = 0
    for field, each in figures.items():
        setattr(row, field, each)
    row.save()
    return row


def hour(path: str, start: datetime, *, kbps: float = 6000, **figures: Any) -> Rollup:
    """An hour on air without trouble, of a stream, and counted for its application."""
    samples = [kbps] * 60
    whole: dict[str, Any] = dict.fromkeys(("elapsed_ms", "live_ms", "good_ms", "targeted_ms"), H_MS)
    whole |= dict.fromkeys(("video_kbps_p5", "video_kbps_p50", "video_kbps_p95"), kbps)
    whole |= {
        "video_bytes": int(kbps * H_MS / 8),
        "out_bytes": 10 * int(kbps * H_MS / 8),
        "video_frames": 108_000,
        "gop_2": 1800,
        "player_ms": 10 * H_MS,
        "peak_players": 12,
        "peak_at": start + timedelta(minutes=7),
        "peak_streams": 1,
        "keyframe_interval_max": 2.0,
    }
    whole |= figures
    app = path.partition("/")[0]
    known = Rollup.objects.filter(dimension=Dimension.APP, value=app, start=start)
    if known.exists():
        known.update(**{name: F(name) + whole[name] for name in SUMMED if name in whole})
    else:
        rollup(app, start, kbps=samples, dimension=Dimension.APP, **whole)
    return rollup(path, start, kbps=samples, **whole)


def done(start: datetime, hours: int = 1, **fields: Any) -> None:
    """The ledger has these hours as computed."""
    done = {"grain": Grain.HOUR, "state": Partition.State.DONE, "metric_version": METRIC_VERSION, "fingerprint": "f"}
    for number in range(hours):
        Partition.objects.create(**{"start": start + number * HOUR, **done, **fields})
