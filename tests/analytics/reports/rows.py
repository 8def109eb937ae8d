"""Rollups and ledger rows as the jobs write them, for reports of them."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import F

from analytics.figures import RANKS, SUM_FIELDS
from analytics.histograms import quantiles
from analytics.models import METRIC_VERSION, Dimension, Grain, Partition, Rollup
from tests.analytics.packed import packed
from tests.dashboard.house import EMPTY

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
    own = {
        "grain": Grain.HOUR,
        "start": start,
        "dimension": dimension,
        "app": app,
        "name": name,
        "value": value or path,
    }
    least, most, histogram = min(kbps, default=None), max(kbps, default=None), packed(kbps)
    low, middle, high = quantiles([histogram], RANKS, least=least, most=most)
    rates = {"min": least, "p5": low, "p50": middle, "p95": high, "max": most}
    own |= {f"video_kbps_{name}": rate for name, rate in rates.items()} | {"video_histogram": histogram}
    sums = {"kbps_sum": sum(map(round, kbps)), "kbps_squares": sum(round(each) ** 2 for each in kbps)}
    own |= {**EMPTY, **sums, "samples": len(kbps), "unique_players": None, "metric_version": METRIC_VERSION}
    return Rollup.objects.create(**own | figures)


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
        known.update(**{name: F(name) + whole[name] for name in SUM_FIELDS if name in whole})
    else:
        rollup(app, start, kbps=samples, dimension=Dimension.APP, **whole)
    return rollup(path, start, kbps=samples, **whole)


def done(start: datetime, hours: int = 1, **fields: Any) -> None:
    """The ledger has these hours as computed."""
    done = {"grain": Grain.HOUR, "state": Partition.State.DONE, "metric_version": METRIC_VERSION, "fingerprint": "f"}
    for number in range(hours):
        Partition.objects.create(**{"start": start + number * HOUR, **done, **fields})
