"""A chart of the bitrate as a picture for mail and PDF; pages draw their own. matplotlib is loaded only to draw one.

The band from low to high, the line in its middle, the target dashed; off air is a gap in both, never a zero joined up.
"""

import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from analytics.reports.document import Chart
from analytics.wording import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MEDIAN, BAND, GRID, EDGE, ASIDE = "#1d48a5", "#2f62cf", "#e8ebef", "#dfe3e8", "#5c6672"
"""The light tokens --median, --series (--band is 11 % of it), --grid, --line and --text-3."""
BAND_SHARE = 0.14
FONT = "DejaVu Sans"

SIZE = (6.8, 2.0)
"""Inches, at 100 pixels each: as wide as a mail's column, so that its words are no smaller than others there."""
NICE = (1.0, 2.0, 2.5, 5.0, 10.0)
PARTS = 4
"""Between gridlines."""
DPI = 200
"""Of a PNG: twice what it is shown at."""


def png(chart: Chart) -> bytes:
    made = io.BytesIO()
    _drawn(chart).savefig(made, format="png", dpi=DPI, metadata={"Software": None})
    return made.getvalue()


def _drawn(chart: Chart) -> "Figure":
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=SIZE, dpi=100, layout=ConstrainedLayoutEngine(w_pad=0.02, h_pad=0.04))
    axes = figure.add_subplot()
    steps = len(chart["p50"])
    top = top_of(chart)
    axes.set_xlim(0, steps)
    axes.set_ylim(0, top)
    _frame(axes, chart, top)
    _lines(axes, chart)
    if chart["target"]:
        axes.axhline(chart["target"], color=ASIDE, linewidth=1, dashes=(3, 4), zorder=2)
        axes.annotate(
            f"target {number(chart['target'])}",
            (0, chart["target"]),
            xytext=(6, 3),
            textcoords="offset points",
            color=ASIDE,
            fontsize=7.5,
            fontfamily=FONT,
        )
    return figure


def top_of(chart: Chart) -> float:
    """A round number above all that is drawn, `PARTS` round steps high."""
    most = max(value or 0 for value in (*chart["p95"], *chart["p50"], chart["target"])) * 1.08 or 1000
    size = 10.0 ** math.floor(math.log10(most / PARTS))
    return next(PARTS * nice * size for nice in NICE if PARTS * nice * size >= most)


def _frame(axes: "Axes", chart: Chart, top: float) -> None:
    """Gridlines, words at the axes, and where days begin."""
    axes.set_yticks([top * part / PARTS for part in range(PARTS + 1)])
    axes.set_yticklabels([number(top * part / PARTS) for part in range(PARTS + 1)])
    axes.set_xticks([tick["at"] for tick in chart["ticks"]])
    axes.set_xticklabels([tick["label"] for tick in chart["ticks"]])
    axes.tick_params(length=0, labelsize=7.5, labelcolor=ASIDE, pad=5, labelfontfamily=FONT)
    axes.grid(axis="y", color=GRID, linewidth=1)
    axes.set_axisbelow(True)
    for edge in chart["edges"]:
        axes.axvline(edge, color=EDGE, linewidth=0.6, zorder=0.5)
    for side in axes.spines.values():
        side.set_visible(False)


def _lines(axes: "Axes", chart: Chart) -> None:
    """A point in the middle of each step; a time on air goes to the edges of its first and its last one."""
    places: list[float] = []
    values: list[tuple[float, float, float]] = []
    steps = list(zip(chart["p5"], chart["p50"], chart["p95"], strict=True))
    for place, (low, middle, high) in enumerate(steps):
        if low is None or middle is None or high is None:
            continue
        before, after = _is_edge(steps, place - 1), _is_edge(steps, place + 1)
        for at in ([place] * before) + [place + 0.5] + ([place + 1] * after):
            places.append(at)
            values.append((low, middle, high))
        if after:
            places.append(place + 1)
            values.append((math.nan, math.nan, math.nan))
    lows, middles, highs = zip(*values, strict=True) if values else ((), (), ())
    axes.fill_between(places, lows, highs, color=BAND, alpha=BAND_SHARE, linewidth=0, zorder=1)
    axes.plot(places, middles, color=MEDIAN, linewidth=1.5, solid_joinstyle="round", zorder=3)


def _is_edge(steps: Sequence[tuple[float | None, ...]], number: int) -> bool:
    """Whether there is no such step, or it was off air."""
    return not 0 <= number < len(steps) or steps[number][1] is None
