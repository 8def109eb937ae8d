"""Rollups summed by the database, group by group: the metrics of a time without a row of it in memory."""

from collections.abc import Mapping
from typing import Any

from django.db.models import Aggregate, Max, QuerySet, Sum

from analytics.figures import GREATEST, NO_QUANTILES, SUMMED, Figures, Quantiles, Sums
from analytics.models import Rollup

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


def added(sums: Sums, more: Sums) -> Sums:
    greatest = {
        name: max((each for each in (sums[name], more[name]) if each is not None), default=None) for name in GREATEST
    }
    return {name: (sums[name] or 0) + (more[name] or 0) for name in SUMMED} | greatest


def figures_of_sums(sums: Sums, quantiles: Quantiles = NO_QUANTILES, **further: Any) -> Figures:
    """PostgreSQL has sums as Decimal."""
    whole = {name: int(sums[name] or 0) for name in SUMMED}
    return Figures.of_sums(whole | {name: sums[name] for name in GREATEST} | further, quantiles)


def _aggregates() -> dict[str, Aggregate]:
    sums: dict[str, Aggregate] = {f"{PREFIX}{name}": Sum(name) for name in SUMMED}
    return sums | {f"{PREFIX}{name}": Max(name) for name in GREATEST}


def _named(row: Mapping[str, Any]) -> Sums:
    return {name: row[f"{PREFIX}{name}"] for name in (*SUMMED, *GREATEST)}
