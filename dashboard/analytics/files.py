"""What files and the API have of rollups: each row's figures, and the metrics that follow from them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from analytics.figures import DERIVED, GREATEST, SUMMED, Figures
from analytics.histograms import in_file
from analytics.metrics import BITRATES, PERCENTILES
from analytics.models import FIGURES, IDENTITY
from analytics.rollups import Rollups
from dashboard.analytics.broadcasts import MOST_IN_FILE, Broadcast, broadcasts
from dashboard.analytics.comparing import Comparison, Line
from dashboard.analytics.happenings import MOST_IN_FILE as MOST_EVENTS
from dashboard.analytics.happenings import happenings

if TYPE_CHECKING:
    from dashboard.analytics.stream import History

ROLLUP_COLUMNS = (*IDENTITY, *FIGURES, *DERIVED, "metric_version")
MERGED = (
    *SUMMED,
    *GREATEST,
    *("video_kbps_mean", "video_kbps_p5", "video_kbps_p50", "video_kbps_p95"),
    *DERIVED,
)
"""Of what was summed over several rows."""
BROADCAST_COLUMNS = ("app", "name", "begin", "end", *MERGED)
EVENT_COLUMNS = ("at", "kind", "words", "detail", "session")
COMPARED_COLUMNS = ("by", "value", "label", "stream", *MERGED)

STORED = (*IDENTITY, *FIGURES, "metric_version")
RANKED = tuple(f"{kind}_kbps_{rank}" for kind in BITRATES for rank in PERCENTILES)


def derived(values: dict[str, Any]) -> dict[str, float | None]:
    """The metrics that follow from a row's sums."""
    figures = Figures.of_sums(values)
    return {name: getattr(figures, name) for name in DERIVED}


def rollups(rows: Rollups) -> Iterator[dict[str, Any]]:
    for values in rows.values(*STORED):
        yield _rounded({**values, **derived(values)})


def broadcast_rows(history: "History") -> Iterator[dict[str, Any]]:
    found = broadcasts(history.app, history.name, history.period, MOST_IN_FILE)
    return ({"app": history.app, "name": history.name, **_broadcast(one)} for one in found)


def _broadcast(one: Broadcast) -> dict[str, Any]:
    return {"begin": one.begin, "end": one.end, **_merged(one.figures)}


def event_rows(history: "History") -> Iterator[dict[str, Any]]:
    found = happenings(history.app, history.name, history.stream, history.period, MOST_EVENTS)
    return ({name: getattr(one, name) for name in EVENT_COLUMNS} for one in found)


def compared_rows(comparison: Comparison) -> Iterator[dict[str, Any]]:
    return (_compared(comparison, line) for line in comparison.every())


def _compared(comparison: Comparison, line: Line) -> dict[str, Any]:
    about = {"by": str(comparison.dimension), "value": line.value, "label": line.label, "stream": line.stream}
    return about | _merged(line.figures)


def _merged(figures: Figures) -> dict[str, Any]:
    return _rounded({name: getattr(figures, name) for name in MERGED})


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    return {name: in_file(value) if name in RANKED else value for name, value in row.items()}
