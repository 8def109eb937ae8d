"""Rollups summed by the database: the metrics of a time without a row of it in memory, but for the histograms."""

from collections.abc import Mapping
from typing import Any

from django.db.models import Aggregate, Max, QuerySet, Sum

from analytics.figures import GREATEST, MEASURED, NO_QUANTILES, SUMMED, Figures, Quantiles, merged
from analytics.models import Rollup

PREFIX = "all_"
"""An aggregate may not have a field's name."""

MANY = 2000
"""Rows that are read at a time."""


def aggregates() -> dict[str, Aggregate]:
    sums: dict[str, Aggregate] = {f"{PREFIX}{name}": Sum(name) for name in SUMMED}
    return sums | {f"{PREFIX}{name}": Max(name) for name in GREATEST}


def figures_of_sums(found: Mapping[str, Any], quantiles: Quantiles = NO_QUANTILES, **further: Any) -> Figures:
    """Of a row of `aggregates`; PostgreSQL has its sums as Decimal."""
    sums = {name: int(found[f"{PREFIX}{name}"] or 0) for name in SUMMED}
    greatest = {name: found[f"{PREFIX}{name}"] for name in GREATEST}
    return Figures.of_sums(sums | greatest | further, quantiles)


def figures_of(rows: QuerySet[Rollup]) -> Figures:
    """Of all the rows, which are of one thing."""
    rows = rows.order_by()
    found = rows.aggregate(**aggregates())
    peak = (
        rows.filter(peak_at__isnull=False).order_by("-peak_players", "start").values_list("peak_at", flat=True).first()
    )
    refused = rows.filter(refused__gt=0).values_list("refusals", flat=True)
    refusals: dict[str, int] = {}
    for counts in refused:
        for reason, count in counts.items():
            refusals[reason] = refusals.get(reason, 0) + count
    return figures_of_sums(found, quantiles_of(rows), peak_at=peak, refusals=refusals)


def quantiles_of(rows: QuerySet[Rollup]) -> Quantiles:
    """Of all their samples."""
    return merged(rows.filter(samples__gt=0).values_list(*MEASURED).iterator(MANY))
