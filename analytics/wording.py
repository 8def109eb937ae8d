"""Figures as a report says them: thousands by comma, a no-break space before the unit; and tiles, the figures at the
head of a report or a page, each beside that of the period before: tables of rows make them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from analytics.figures import Figures

NBSP = "\N{NO-BREAK SPACE}"
NOTHING = "\N{EN DASH}"
SMALL = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def number(value: float | None, digits: int = 0) -> str:
    """A figure with thousands' commas; a dash for none."""
    return NOTHING if value is None else f"{value:,.{digits}f}"


def percent(value: float | None) -> str:
    """One decimal, and none of it where it says nothing: 100, 99.97 is 99.9, not 100."""
    if value is None:
        return NOTHING
    shown = round(value, 1)
    if shown == 100 > value:
        shown = 99.9
    return "100" if shown == 100 else f"{shown:.1f}"


def with_unit(value: str, unit: str) -> str:
    return f"{value}{NBSP}{unit}" if unit else value


def span(milliseconds: float) -> str:
    """A duration: 2 h 53 min, 4 min, 35 s."""
    seconds = round(milliseconds / 1000)
    if seconds < 120:
        return with_unit(str(seconds), "s")
    minutes = round(seconds / 60)
    if minutes < 120:
        return with_unit(str(minutes), "min")
    hours, minutes = divmod(minutes, 60)
    return with_unit(f"{hours:,}", "h") + (f" {with_unit(str(minutes), 'min')}" if minutes and hours < 100 else "")


def times(count: int) -> str:
    """Once, twice, four times, 37 times."""
    return {1: "once", 2: "twice"}.get(count) or f"{count_words(count)} times"


def count_words(count: int) -> str:
    return SMALL[count] if count < len(SMALL) else f"{count:,}"


def plural(count: int, one: str, many: str = "") -> str:
    return one if count == 1 else many or f"{one}s"


def data_size(gigabytes: float) -> tuple[str, str]:
    """A figure of about three digits, and its unit."""
    for unit, size in (("PB", 1e6), ("TB", 1e3), ("GB", 1), ("MB", 1e-3)):
        if gigabytes >= size:
            return short(gigabytes / size), unit
    return (short(gigabytes * 1e3) if gigabytes else "0"), "MB"


def short(value: float | None) -> str:
    """About three digits: 0.012, 2.5, 37.1, 698, 41,300."""
    if value is None:
        return NOTHING
    size = abs(value)
    if size >= 10_000:
        return f"{round(value, -2):,.0f}"
    if size >= 100:
        return f"{value:,.0f}"
    shown = f"{value:.1f}" if size >= 1 else f"{value:.3f}" if size < 0.1 else f"{value:.2f}"
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


def listed(parts: Sequence[str], most: int = 3) -> str:
    """a, b and c; of many the first, and how many more."""
    if len(parts) > most:
        parts = [*parts[:most], f"{len(parts) - most} more"]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def sentence(text: str) -> str:
    """With a capital and a full stop."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


LEVELS = {"bad": "✖ Bad", "warning": "▲ Warning", "good": "✔ Good"}
NO_DATA = "◌ No data"


def level_words(level: str) -> str:
    """A level where there are no icons: a sign with an outline of its own, and the word."""
    return LEVELS.get(level, NO_DATA).replace(" ", NBSP)


def share_words(level: str, bad_percent: float | None, warning_percent: float | None) -> str:
    """For how much of the time it was so bad: "12.5 %"; of a warning, with what was worse. "" where it was good."""
    shares = {"bad": bad_percent, "warning": None if warning_percent is None else warning_percent + (bad_percent or 0)}
    share = shares.get(level)
    return "" if share is None else with_unit(percent(share), "%")


def marked(text: str) -> list[tuple[str, bool]]:
    """The parts of a text, and whether each stands between ** and so is bold."""
    parts = text.split("**")
    return [(part, place % 2 == 1) for place, part in enumerate(parts) if part]


Show = Callable[["Figures"], tuple[str, str]]
"""A value and its unit."""

Compare = Callable[["Figures", "Figures", str], str]
"""(now, then, what then is called): words."""


class Tile(TypedDict):
    """`comparison` is words ("week before: 99.4 %"), empty when there is nothing to compare with."""

    label: str
    value: str  # With thousands' commas; a dash when nothing was measured.
    unit: str
    comparison: str


@dataclass(frozen=True, slots=True)
class TileRow:
    label: str
    show: Show
    compare: Compare
    compares_always: bool = True
    """Whether it has words for a period that nothing is known before."""


def plain(name: str, unit: str = "", words: Callable[[Any], str] = short) -> Show:
    return lambda figures: (words(getattr(figures, name)), unit)


def tiles(rows: Sequence[TileRow], now: "Figures", then: "Figures | None", called: str) -> list[Tile]:
    """`called`: the period before, such as "week before"."""
    made: list[Tile] = []
    for row in rows:
        value, unit = row.show(now)
        compared = row.compare(now, then or now, called) if then or row.compares_always else ""
        made.append(Tile(label=row.label, value=value, unit="" if value == NOTHING else unit, comparison=compared))
    return made
