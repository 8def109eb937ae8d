"""Strips of bars below a chart, on its time axis: trouble stands up. Positions are in per cent of the width."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from analytics.figures import Figures
from dashboard.analytics.periods import Period

SHAPES = {"good": (27.0, 7.0), "warning": (16.0, 18.0), "bad": (4.0, 30.0), "none": (33.0, 1.5)}
"""Top and height of a bar in a box 34 high."""

BARS_APART = 240
"""Up to so many hours or days each has a bar of its own; beyond, neighbours of the same look are one."""
GAP = 0.18
"""Of a bar's place: between it and the next."""

UPTIME_GOOD, UPTIME_WARNING = 99.5, 95.0
"""Per cent from which on an hour's uptime is good, and only a warning."""


@dataclass(frozen=True, slots=True)
class Bar:
    start: datetime
    look: str
    x: str
    width: str
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Strip:
    """`counts`: how many hours or days have which look."""

    name: str
    good: str
    warning: str
    bad: str
    bars: list[Bar]
    counts: dict[str, int]


def health_strip(period: Period, figures: Sequence[Figures | None]) -> Strip:
    looks = [one.health if one else "none" for one in figures]
    return _strip("Health", ("good", "warning, taller", "bad, tallest"), period, looks)


def uptime_strip(period: Period, figures: Sequence[Figures | None]) -> Strip:
    words = (f"{UPTIME_GOOD} % and more", f"{UPTIME_WARNING:.0f} % and more, taller", "less, tallest")
    return _strip("Uptime", words, period, [_uptime_look(one) for one in figures])


def _uptime_look(figures: Figures | None) -> str:
    percent = figures.uptime_percent if figures else None
    if percent is None:
        return "none"
    return "good" if percent >= UPTIME_GOOD else "warning" if percent >= UPTIME_WARNING else "bad"


def _strip(name: str, words: tuple[str, str, str], period: Period, looks: list[str]) -> Strip:
    counts = {look: looks.count(look) for look in SHAPES}
    return Strip(name, *words, _bars(period, looks), counts)


def _bars(period: Period, looks: list[str]) -> list[Bar]:
    share = 100 / len(looks)
    apart = len(looks) <= BARS_APART
    alike: Callable[[int], object] = (lambda index: index) if apart else looks.__getitem__
    bars = []
    for _, places in groupby(range(len(looks)), alike):
        run = list(places)
        look = looks[run[0]]
        top, height = SHAPES[look]
        width = share * (len(run) - (GAP if apart else 0))
        start = period.since + run[0] * period.step
        bars.append(Bar(start, look, f"{run[0] * share:.3f}%", f"{width:.3f}%", top, height))
    return bars
