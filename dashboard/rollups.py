"""The history that the analytics page shows and exports: a stream's rollups of a period, and what follows from them."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Self

from django.db.models import Max, QuerySet, Sum
from django.http import QueryDict
from django.utils import timezone

from analytics.models import Grain, Rollup
from ingest.models import Stream

RANGES = {"24h": timedelta(hours=24), "7d": timedelta(days=7), "30d": timedelta(days=30), "90d": timedelta(days=90)}
RANGE_WORDS = {"24h": "24 h", "7d": "7 days", "30d": "30 days", "90d": "90 days"}
STEPS = {Grain.HOUR: timedelta(hours=1), Grain.DAY: timedelta(days=1)}
GRAIN_WORDS = {Grain.HOUR: "By hour", Grain.DAY: "By day"}
BY_DAY = {"30d", "90d"}
"""Ranges that are shown by day unless hours are asked for."""

MAX_STREAMS = 1000
"""In the page's list of streams; any stream may be asked for by its path."""

WARN_BELOW, BAD_BELOW = 0.7, 0.4
"""Of the target bitrate, as the health check `bitrate_low` has it."""


@dataclass(frozen=True)
class Choice:
    """What is shown: a stream's path ("" when there is none yet), the range's name, the grain, and the time now."""

    path: str
    range: str
    grain: Grain
    now: datetime

    @classmethod
    def of(cls, query: QueryDict) -> Self:
        """From a page's address; what can't be understood is taken as not given."""
        chosen = query.get("range", "")
        if chosen not in RANGES:
            chosen = "24h"
        grain = Grain.DAY if chosen in BY_DAY else Grain.HOUR
        if query.get("grain") in Grain.values:
            grain = Grain(str(query["grain"]))
        path = query.get("stream", "").replace("\0", "")
        return cls(path if "/" in path else latest_path(), chosen, grain, timezone.now())

    @property
    def step(self) -> timedelta:
        return STEPS[self.grain]

    @property
    def until(self) -> datetime:
        """The end of the hour or day that it is now."""
        start = self.now.replace(minute=0, second=0, microsecond=0)
        return (start.replace(hour=0) if self.grain == Grain.DAY else start) + self.step

    @property
    def since(self) -> datetime:
        return self.until - max(RANGES[self.range], self.step)

    @property
    def app(self) -> str:
        return self.path.partition("/")[0]

    @property
    def name(self) -> str:
        return self.path.partition("/")[2]

    def rollups(self) -> QuerySet[Rollup]:
        """Newest first."""
        rows = Rollup.objects.filter(grain=self.grain, app=self.app, name=self.name)
        return rows.filter(start__gte=self.since, start__lt=self.until).order_by("-start")


def latest_path() -> str:
    """The stream that was rolled up last."""
    row = Rollup.objects.filter(grain=Grain.HOUR).order_by("-start", "app", "name").first()
    return f"{row.app}/{row.name}" if row else ""


def paths() -> list[str]:
    """The streams with a history, by name."""
    found = Rollup.objects.filter(grain=Grain.HOUR).order_by("app", "name").values_list("app", "name").distinct()
    return [f"{app}/{name}" for app, name in found[:MAX_STREAMS]]


def target_kbps(choice: Choice) -> int | None:
    """The stream's expected video bitrate, if it was told."""
    stream = Stream.objects.filter(application__name=choice.app, name=choice.name).first()
    return stream.target_kbps if stream else None


def totals(choice: Choice) -> dict[str, Any]:
    """The period's figures: sums, and the hours or days that stand out."""
    rows = choice.rollups()
    summed = ("live_ms", "elapsed_ms", "video_bytes", "video_frames", "missing_frames_est", "player_ms", "out_bytes")
    found: dict[str, Any] = rows.aggregate(
        **{name: Sum(name) for name in summed}, keyframe_interval_max=Max("keyframe_interval_max")
    )
    frames = (found["video_frames"] or 0) + (found["missing_frames_est"] or 0)
    return {
        "live_ms": found["live_ms"] or 0,
        "mean_kbps": 8 * found["video_bytes"] / found["elapsed_ms"] if found["elapsed_ms"] else None,
        "lowest": rows.filter(video_kbps_p50__isnull=False).order_by("video_kbps_p50").first(),
        "keyframe_interval_max": found["keyframe_interval_max"],
        "missing_percent": 100 * found["missing_frames_est"] / frames if frames else None,
        "peak": rows.order_by("-peak_players", "-start").first(),
        "player_h": (found["player_ms"] or 0) / 3_600_000,
        "delivered_gb": (found["out_bytes"] or 0) / 1e9,
    }


def chart(choice: Choice, rows: list[Rollup], target: int | None) -> dict[str, Any]:
    """The chart's columns, one value for each hour or day of the period; null where the stream was off air."""
    known = {row.start: row for row in rows}
    slots = [known.get(start) for start in slot_starts(choice)]
    return {
        "from": choice.since.timestamp(),
        "step": choice.step.total_seconds(),
        "p5": [slot and slot.video_kbps_p5 for slot in slots],
        "p50": [slot and slot.video_kbps_p50 for slot in slots],
        "p95": [slot and slot.video_kbps_p95 for slot in slots],
        "target": target,
        "warnBelow": target and target * WARN_BELOW,
        "badBelow": target and target * BAD_BELOW,
    }


BARS = {"good": (27.0, 7.0), "warning": (16.0, 18.0), "bad": (4.0, 30.0), "none": (33.0, 1.5)}
"""Top and height of an hour's bar in the health strip, in a box 34 high: trouble stands up."""


@dataclass(frozen=True)
class Bar:
    start: datetime
    health: str
    x: str
    width: str
    y: float
    height: float


def strip(choice: Choice, rows: list[Rollup]) -> list[Bar]:
    """A bar for each hour or day of the period; x and width in per cent."""
    known = {row.start: row.health for row in rows}
    starts = slot_starts(choice)
    share = 100 / len(starts)
    bars = []
    for index, start in enumerate(starts):
        health = known.get(start, "none")
        top, height = BARS[health]
        bars.append(Bar(start, health, f"{index * share:.3f}%", f"{share * 0.82:.3f}%", top, height))
    return bars


def slot_starts(choice: Choice) -> list[datetime]:
    """The beginnings of the period's hours or days."""
    count = round((choice.until - choice.since) / choice.step)
    return [choice.since + number * choice.step for number in range(count)]
