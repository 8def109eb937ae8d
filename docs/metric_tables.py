"""Prints the metrics: `python -m docs.metric_tables docs/analytics.md` brings the tables of the docs up to date."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from analytics import metrics
from analytics.metrics import Derived, Figure, Merge, Metric

MERGED_AS = {
    Merge.SUM: "sum",
    Merge.MAX: "maximum",
    Merge.MIN: "minimum",
    Merge.COUNTS: "sums",
    Merge.DISTINCT: "counted anew",
    Merge.UNION: "the hours' sketches united",
    Merge.FIRST_OF_MAX: "the greatest hour's",
    Merge.HISTOGRAM: "histograms added up",
    Merge.DERIVED: "from the sums",
}
"""What a day has of its hours, in words."""

TABLES: tuple[tuple[str, Sequence[Figure]], ...] = (
    ("Column | Unit | Meaning", metrics.MEASURED),
    ("Column | Unit | Meaning", (*metrics.SESSION_SUMS, *metrics.EVENT_SUMS, *metrics.REASON_COUNTS)),
    ("Column | Unit | Meaning | Of a day", (*metrics.DISTINCT, *metrics.EXTREMES, *metrics.PEAKS, *metrics.RATES)),
    ("Metric | Unit | Meaning | Formula", metrics.DERIVED),
)
"""Of the docs, in their order: the head, and whose rows."""

TABLE = re.compile(r"(?<=<!-- metrics -->\n).*?(?=<!-- /metrics -->)", re.DOTALL)


def documented(docs: str) -> str:
    """The text with the tables that belong between its marks."""
    tables = iter(TABLES)
    return TABLE.sub(lambda _: _table(*next(tables)), docs)


def _table(head: str, figures: Sequence[Figure]) -> str:
    rows = (_cells(figure)[: head.count("|") + 1] for figure in figures)
    return "\n".join(
        [f"| {head} |", f"|{'---|' * (head.count('|') + 1)}", *(f"| {' | '.join(row)} |" for row in rows), ""]
    )


def _cells(figure: Figure) -> list[str]:
    cells = [f"`{figure.name}`", figure.unit, figure.doc]
    if isinstance(figure, Derived):
        return [*cells, f"`{figure.formula}`"]
    return [*cells, MERGED_AS[figure.merge]] if isinstance(figure, Metric) else cells


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(documented(file.read_text()))
