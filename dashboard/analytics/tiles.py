"""The tiles above a stream's chart: each figure, and the period before in words."""

from collections.abc import Callable
from dataclasses import dataclass

from django.utils import timezone

from analytics.figures import Figures
from dashboard.analytics.periods import Period
from dashboard.templatetags.figures import NONE, figure


@dataclass(frozen=True, slots=True)
class Tile:
    label: str
    value: str
    unit: str
    comparison: str

    @property
    def has_unit(self) -> bool:
        return self.unit != "" and self.value != NONE


Made = Callable[[Figures, Figures, str], Tile]
"""From the period's figures, those of the period before, and how that is called."""


def tiles(figures: Figures, former: Figures, period: Period) -> list[Tile]:
    return [make(figures, former, period.before_words) for make in MADE]


def _was(value: float | None, before: str, decimals: int = 1) -> str:
    return f"{before}: {figure(value, decimals)}\u00a0%" if value is not None else f"no history the {before}"


def _more(now: float | None, then: float | None, before: str, unit: str = "", decimals: int = 0) -> str:
    """ "4.1 h more": than in the period before."""
    if now is None or then is None:
        return f"none the {before}" if now is not None else ""
    difference = round(now - then, decimals)
    if not difference:
        return f"as the {before}"
    size = figure(abs(difference), decimals) + (f"\u00a0{unit}" if unit else "")
    return f"{size} {'more' if difference > 0 else 'less'}"


def _uptime(figures: Figures, former: Figures, before: str) -> Tile:
    return Tile("Uptime", figure(figures.uptime_percent, 1), "%", _was(former.uptime_percent, before))


def _live(figures: Figures, former: Figures, before: str) -> Tile:
    hours = figures.live_h
    size, unit = next(((size, unit) for size, unit in ((1, "h"), (60, "min")) if hours * size >= 1), (3600, "s"))
    value = figure(hours * size, 1 if unit != "s" else 0)
    then = former.live_h * size if former.elapsed_ms else None
    return Tile("Live time", value, unit, _more(hours * size, then, before, unit, 1))


def _median(figures: Figures, former: Figures, before: str) -> Tile:
    now, then = figures.video_kbps_p50, former.video_kbps_p50
    return Tile("Median bitrate", figure(now), "kbit/s", _more(now, then, before))


def _below(figures: Figures, former: Figures, before: str) -> Tile:
    comparison = _was(former.below_percent, before) if figures.targeted_ms else "no target bitrate is known"
    return Tile("Below target", figure(figures.below_percent, 1), "% of time", comparison)


def _reconnects(figures: Figures, former: Figures, before: str) -> Tile:
    more = _more(figures.reconnects, former.reconnects if former.elapsed_ms else None, before)
    return Tile(
        "Reconnects",
        figure(figures.reconnects_per_hour, 2),
        "an hour",
        f"{figure(figures.reconnects)} in all, {more}",
    )


def _recovery(figures: Figures, former: Figures, before: str) -> Tile:
    comparison = _more(figures.mttr_s, former.mttr_s, before, "s") if figures.reconnects else "nothing to recover from"
    return Tile("Mean recovery", figure(figures.mttr_s), "s", comparison)


def _peak(figures: Figures, former: Figures, before: str) -> Tile:
    peak_at = figures.peak_at if figures.peak_players else None
    at = f"{timezone.localtime(peak_at):%a %-d %b, %H:%M}" if peak_at else ""
    return Tile("Peak players", figure(figures.peak_players), "", at)


MADE: tuple[Made, ...] = (_uptime, _live, _median, _below, _reconnects, _recovery, _peak)
