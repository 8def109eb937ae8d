"""What a viewer's page tells of how it played (HLS), as far as it can be believed.

It is the browser's word: anybody can send another. So it is held against how long the session lasted, and
left out where it contradicts that. Another player than the watch page tells nothing."""

from collections.abc import Mapping
from typing import Final, cast

from ingest.contracts import Totals

REPORT: Final = ("join_ms", "stalls", "stalled_ms", "watched_ms")

PLAYED: Final = REPORT[1:]
"""What tells nothing without the others."""

SLACK_MS: Final = 15_000
"""A page is opened before its session begins, and goes on with what it has when that is over."""

STALLS_A_S: Final = 10
"""More are none."""


def believed(totals: Totals) -> Totals:
    """The totals with what its report says, if that is plausible; what it does not say is left out."""
    report = {name: value for name, value in totals.items() if name in REPORT and value is not None}
    if not report.keys() >= set(PLAYED):
        report = {name: value for name, value in report.items() if name not in PLAYED}
    counted = {name: value for name, value in totals.items() if name not in REPORT}
    is_plausible = _is_plausible(report, totals["duration_ms"] + SLACK_MS)
    return cast(Totals, counted | report if is_plausible else counted)


def _is_plausible(report: Mapping[str, object], most_ms: int) -> bool:
    figures = {name: value for name, value in report.items() if type(value) is int and value >= 0}
    if len(figures) < len(report):
        return False
    stalled, watched = figures.get("stalled_ms", 0), figures.get("watched_ms", 0)
    stalls = figures.get("stalls", 0)
    return max(figures.get("join_ms", 0), stalled + watched, stalls * 1000 // STALLS_A_S) <= most_ms
