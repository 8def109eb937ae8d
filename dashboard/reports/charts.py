"""A report's chart as an SVG for the page and for paper: where its lines, bands and words stand.

Lengths are units of the drawing, `BOX.width` x `BOX.height`. Colours come from classes, so that the theme has them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from zoneinfo import ZoneInfo

from analytics.reports import charts
from analytics.reports.document import Chart


@dataclass(frozen=True, slots=True)
class Box:
    """Where the plot stands in the drawing; what is around it is for the words of the axes."""

    width: int = 860
    height: int = 220
    left: int = 44
    right: int = 856
    top: int = 10
    bottom: int = 192
    figures: int = 36
    """Where the words of gridlines end,"""
    days: int = 212
    """and those of days stand."""
    letter: float = 6.2
    """How wide one is, about."""


BOX = Box()

Point = tuple[float, float]
Values = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Mark:
    """A gridline or a tick: where it stands on its axis, and its words."""

    at: str
    words_at: str
    label: str


@dataclass(frozen=True, slots=True)
class Moment:
    at: datetime
    p50: float | None
    p5: float | None
    p95: float | None


@dataclass(frozen=True, slots=True)
class Plot:
    chart: Chart
    grid: list[Mark]
    ticks: list[Mark]
    edges: list[str]
    """Where days begin."""
    bands: list[str]
    lines: list[str]
    """Paths, one for each time on air."""
    target: str
    """Its height; empty where there is none, or far off."""
    target_words_at: str
    moments: list[Moment]
    """What was measured, in the report's time zone."""


def plot(chart: Chart, time_zone: str) -> Plot:
    """`time_zone`: a name of the database of time zones."""
    count = max(1, len(chart["p50"]))
    top = charts.top_of(chart)

    def x(slot: float) -> float:
        return BOX.left + (BOX.right - BOX.left) * slot / count

    def y(value: float) -> float:
        return BOX.bottom - (BOX.bottom - BOX.top) * value / top

    def points(values: Values, first: int, last: int) -> list[Point]:
        """At the middle of each slot, and at both ends of the time on air: an hour alone is a short line."""
        known = [(slot, values[slot]) for slot in range(first, last + 1)]
        inner = [(x(slot + 0.5), y(value)) for slot, value in known if value is not None]
        return [(x(first), inner[0][1]), *inner, (x(last + 1), inner[-1][1])] if inner else []

    steps = [top * part / charts.PARTS for part in range(charts.PARTS + 1)]
    stretches = list(_stretches(chart["p50"]))
    bands = [points(chart["p95"], *each) + points(chart["p5"], *each)[::-1] for each in stretches]
    target = chart["target"]
    return Plot(
        chart,
        grid=[Mark(f"{y(value):.1f}", f"{y(value) + 4:.1f}", f"{value:,.0f}") for value in steps],
        ticks=[_tick(x(tick["at"]), tick["label"]) for tick in chart["ticks"]],
        edges=[f"{x(edge):.1f}" for edge in chart["edges"]],
        bands=[f"{_path(band)}Z" for band in bands if band],
        lines=[_path(points(chart["p50"], *each)) for each in stretches],
        target="" if target is None else f"{y(target):.1f}",
        target_words_at="" if target is None else f"{max(BOX.top + 6, y(target) - 6):.1f}",
        moments=_moments(chart, ZoneInfo(time_zone)),
    )


def _stretches(values: Values) -> Iterator[tuple[int, int]]:
    """First and last slot of each time on air."""
    for is_on_air, slots in groupby(range(len(values)), lambda slot: values[slot] is not None):
        if is_on_air:
            stretch = list(slots)
            yield stretch[0], stretch[-1]


def _tick(at: float, label: str) -> Mark:
    """Its label's middle stands so that all of it is in the drawing."""
    return Mark(f"{at:.1f}", f"{min(at, BOX.width - BOX.letter * len(label) / 2):.1f}", label)


def _path(points: Sequence[Point]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _moments(chart: Chart, zone: ZoneInfo) -> list[Moment]:
    start, step = datetime.fromisoformat(chart["from"]), timedelta(seconds=chart["step_s"])
    rows = zip(chart["p50"], chart["p5"], chart["p95"], strict=True)
    return [
        Moment((start + slot * step).astimezone(zone), p50, p5, p95)
        for slot, (p50, p5, p95) in enumerate(rows)
        if p50 is not None
    ]
