"""Figures at the head of a report or a page, each beside that of the period before: tables of rows make them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

from analytics.wording import NOTHING, short

if TYPE_CHECKING:  # Who draws a report's tiles goes without Django.
    from analytics.figures import Figures

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
