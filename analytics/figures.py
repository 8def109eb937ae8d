"""What follows from the sums of rollups, and how rollups are summed by the database.

analytics.metrics defines each metric; here they are computed, for pages, API and reports alike. None stands where a
metric is not defined: a share of nothing, a mean over none."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from decimal import Decimal
from typing import Any, Generic, Self, TypeVar, cast

from django.db.models import Aggregate, Max, QuerySet, Sum

from analytics import metrics
from analytics.histograms import added, quantiles
from analytics.metrics import GOP_BINS, METRICS, PERCENTILES, Merge
from analytics.models import Rollup

H_MS = 3_600_000
MINUTE_MS = 60_000

BAD_SHARE, WARNING_SHARE = 0.05, 0.01
"""Of the time in which health was known: from which on the whole of it is called so."""
LEAST_MS = 10_000
"""What lasted shorter makes nothing bad."""
RANKS = tuple(percent / 100 for percent in PERCENTILES.values())

Quantiles = tuple[float | None, float | None, float | None]
"""Of the samples' video bitrates: the values at RANKS."""

NO_QUANTILES: Quantiles = (None, None, None)

QuantilePart = tuple[Any, ...]
"""A row's QUANTILE_FIELDS."""

Sums = dict[str, Any]
"""What rows add up to, by SUM_FIELDS, and the most that they have, by MAX_FIELDS; null of none."""


FUNCTIONS = {"sqrt": math.sqrt, "max": max}

Value = TypeVar("Value", float, float | None)


class _ByFormula(Generic[Value]):
    """A property that follows from the sums by its formula in `metrics.DERIVED`."""

    def __set_name__(self, owner: type, name: str) -> None:
        formula = next(one.formula for one in metrics.DERIVED if one.name == name)
        self._code = compile(formula, name, "eval")
        self._names = [each for each in self._code.co_names if each not in FUNCTIONS]

    def __get__(self, figures: "Figures", owner: type) -> Value:
        values = {name: getattr(figures, name) for name in self._names}
        try:
            found = eval(self._code, FUNCTIONS, values)  # noqa: S307 (our own table's text)
        except ZeroDivisionError:
            found = None
        return cast(Value, found)


@dataclass(frozen=True)
class Figures:
    """A rollup, or several summed, and what follows from them. Several are of one thing at several times, or of several
    things whose times come one after another; peaks are the greatest of the rows'.

    `_ms` are milliseconds, `_bytes` bytes, `kbps` kbit/s, `_percent` 0 to 100, `_h` hours, `_s` seconds.
    """

    samples: int = 0
    elapsed_ms: int = 0
    live_ms: int = 0
    good_ms: int = 0
    warning_ms: int = 0
    bad_ms: int = 0
    starved_ms: int = 0
    targeted_ms: int = 0
    below_ms: int = 0
    video_bytes: int = 0
    audio_bytes: int = 0
    data_bytes: int = 0
    wire_bytes: int = 0
    out_bytes: int = 0
    video_frames: int = 0
    audio_frames: int = 0
    keyframes: int = 0
    ts_gaps: int = 0
    ts_regressions: int = 0
    missing_frames_est: int = 0
    media_faults: int = 0
    dropped_frames: int = 0
    player_ms: int = 0
    viewer_ms: int = 0
    kbps_sum: int = 0
    kbps_squares: int = 0
    gop_1: int = 0
    gop_2: int = 0
    gop_2_5: int = 0
    gop_4: int = 0
    gop_6: int = 0
    gop_10: int = 0
    gop_longer: int = 0
    starts: int = 0
    broadcasts: int = 0
    reconnects: int = 0
    recovery_ms: int = 0
    ends: int = 0
    unplanned_ends: int = 0
    accepted: int = 0
    refused: int = 0
    plays: int = 0
    viewer_reports: int = 0
    viewer_joins: int = 0
    viewer_join_ms: int = 0
    viewer_stalled_ms: int = 0
    viewer_watched_ms: int = 0
    peak_players: int = 0
    peak_at: datetime | None = None
    peak_viewers: int = 0
    peak_streams: int = 0
    unique_players: int | None = None
    """Of a single row; of several analytics.rollups unites them, where it is shown."""
    keyframe_interval_max: float | None = None
    refusals: Mapping[str, int] = field(default_factory=dict)
    end_reasons: Mapping[str, int] = field(default_factory=dict)
    quantiles: Quantiles = NO_QUANTILES

    @classmethod
    def of_row(cls, row: Rollup) -> Self:
        values = {each.name: getattr(row, each.name) for each in fields(cls) if each.name != "quantiles"}
        quantiles = (row.video_kbps_p5, row.video_kbps_p50, row.video_kbps_p95) if row.samples else NO_QUANTILES
        return cls(**values, quantiles=quantiles)

    def derived(self) -> dict[str, float | None]:
        return {name: getattr(self, name) for name in DERIVED}

    @classmethod
    def of_sums(cls, sums: Mapping[str, Any], quantiles: Quantiles = NO_QUANTILES) -> Self:
        """Of a database's aggregates by our fields' names; what is missing or null counts as nothing. PostgreSQL has
        sums as Decimal.
        """
        known = {each.name for each in fields(cls)}
        values = {name: value for name, value in sums.items() if name in known and value is not None}
        whole = {name: int(value) for name, value in values.items() if isinstance(value, Decimal)}
        return cls(**values | whole, quantiles=quantiles)

    live_h = _ByFormula[float]()
    uptime_percent = _ByFormula[float | None]()
    health_percent = _ByFormula[float | None]()
    bad_percent = _ByFormula[float | None]()
    warning_percent = _ByFormula[float | None]()
    lost_min = _ByFormula[float]()
    below_percent = _ByFormula[float | None]()
    starvation_percent = _ByFormula[float | None]()
    reconnects_per_hour = _ByFormula[float | None]()
    mtbf_h = _ByFormula[float | None]()
    mttr_s = _ByFormula[float | None]()
    cv = _ByFormula[float | None]()
    missing_percent = _ByFormula[float | None]()
    gaps_per_hour = _ByFormula[float | None]()
    keyframe_late_percent = _ByFormula[float | None]()
    success_percent = _ByFormula[float | None]()
    average_players = _ByFormula[float | None]()
    player_minutes = _ByFormula[float]()
    player_hours = _ByFormula[float]()
    viewer_minutes = _ByFormula[float]()
    viewer_hours = _ByFormula[float]()
    viewer_join_s = _ByFormula[float | None]()
    viewer_stalled_percent = _ByFormula[float | None]()
    delivered_gb = _ByFormula[float]()

    @property
    def measured_ms(self) -> int:
        """Time in which its health was known."""
        return self.good_ms + self.warning_ms + self.bad_ms

    @property
    def health(self) -> str:
        """By share of the measured time: bad from BAD_SHARE of it on, a warning where both came to WARNING_SHARE;
        neither for seconds (LEAST_MS, or half of a shorter time). "none" where nothing was measured.
        """
        if not self.measured_ms:
            return "none"
        least = min(LEAST_MS, self.measured_ms / 2)
        for word, held, share in (
            ("bad", self.bad_ms, BAD_SHARE),
            ("warning", self.bad_ms + self.warning_ms, WARNING_SHARE),
        ):
            if held >= max(least, share * self.measured_ms):
                return word
        return "good"

    @property
    def badness(self) -> tuple[int, float]:
        """By which the worst is the greatest: its health, then for how much of the time it was so bad, per cent."""
        bad, warning = self.bad_percent or 0, self.warning_percent or 0
        return (("none", "good", "warning", "bad").index(self.health), bad if self.health == "bad" else bad + warning)

    @property
    def video_kbps_mean(self) -> float | None:
        """Null, as its percentiles are, of what had no video: 0 would be a fault."""
        return 8 * self.video_bytes / self.elapsed_ms if self.video_frames and self.elapsed_ms else None

    @property
    def video_kbps_p5(self) -> float | None:
        return self.quantiles[0] if self.video_frames else None

    @property
    def video_kbps_p50(self) -> float | None:
        return self.quantiles[1] if self.video_frames else None

    @property
    def video_kbps_p95(self) -> float | None:
        return self.quantiles[2] if self.video_frames else None

    @property
    def keyframe_intervals(self) -> int:
        return sum(getattr(self, name) for name in GOP_BINS)


SUM_FIELDS = tuple(metric.name for metric in METRICS if metric.merge == Merge.SUM)
"""Fields that merge by sum,"""

MAX_FIELDS = tuple(
    each.name for each in fields(Figures) if each.name in {one.name for one in METRICS if one.merge == Merge.MAX}
)
"""and those of which the greatest is taken."""

DERIVED = tuple(one.name for one in metrics.DERIVED)
"""What follows from them, as the API and files name it."""


QUANTILE_FIELDS = (
    "video_histogram",
    *("video_kbps_p5", "video_kbps_p50", "video_kbps_p95"),
    *("video_kbps_min", "video_kbps_max"),
)
"""Of a rollup with samples: what percentiles of several are merged from."""


def combined_parts(parts: Sequence[QuantilePart]) -> QuantilePart:
    """One that counts as much as these, but has no percentiles of its own: others have to come to it."""
    return (added(bytes(part[0]) for part in parts), *NO_QUANTILES, *_bounds(parts))


def merged_quantiles(parts: Iterable[QuantilePart]) -> Quantiles:
    """A single one's own percentiles, else those of all their histograms."""
    every = list(parts)
    if not every:
        return NO_QUANTILES
    if len(every) == 1:
        return every[0][1:4]
    least, most = _bounds(every)
    low, middle, high = quantiles((bytes(part[0]) for part in every), RANKS, least=least, most=most)
    return low, middle, high


def _bounds(parts: Sequence[QuantilePart]) -> tuple[float | None, float | None]:
    """The least and the greatest bitrate of their samples, where any knows it."""
    least, most = ([part[place] for part in parts if part[place] is not None] for place in (4, 5))
    return min(least, default=None), max(most, default=None)


PREFIX = "all_"
"""An aggregate may not have a field's name."""

MANY = 2000
"""Rows that are read at a time."""


def sums_of(rows: QuerySet[Rollup], *keys: str, longest_live: int | None = None) -> dict[tuple[Any, ...], Sums]:
    """By the keys' values. `longest_live`: of no more groups than so many, those with the most live time."""
    rows = rows.order_by()
    if not keys:
        return {(): _named(rows.aggregate(**_aggregates()))}
    groups = rows.values(*keys).annotate(**_aggregates())
    if longest_live is not None:
        groups = groups.order_by(f"-{PREFIX}live_ms", *keys)[:longest_live]
    return {tuple(row[key] for key in keys): _named(row) for row in groups}


def added_sums(sums: Sums, more: Sums) -> Sums:
    greatest = {
        name: max((each for each in (sums[name], more[name]) if each is not None), default=None) for name in MAX_FIELDS
    }
    return {name: (sums[name] or 0) + (more[name] or 0) for name in SUM_FIELDS} | greatest


def _aggregates() -> dict[str, Aggregate]:
    sums: dict[str, Aggregate] = {f"{PREFIX}{name}": Sum(name) for name in SUM_FIELDS}
    return sums | {f"{PREFIX}{name}": Max(name) for name in MAX_FIELDS}


def _named(row: Mapping[str, Any]) -> Sums:
    return {name: row[f"{PREFIX}{name}"] for name in (*SUM_FIELDS, *MAX_FIELDS)}
