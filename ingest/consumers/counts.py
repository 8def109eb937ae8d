"""What a node's application counts since its process began, for metrics: sessions, refusals, recordings.

The node tells it each second. It counts by words of our own, so that no peer can make many of them. They begin at 0, as
one that comes from nowhere is no increase to Prometheus.
"""

from ingest.contracts import END_REASONS, NodeCounts
from ingest.models import Session
from ingest.services.refusals import REASONS

KINDS = tuple(Session.Kind.values)
RECORDINGS = ("started", "closed", "failed")
"""What may become of a recording's file."""


class Counts:
    """All of them begin at 0 with the process."""

    def __init__(self) -> None:
        self._started: dict[str, int] = dict.fromkeys(KINDS, 0)
        self._ended: dict[str, dict[str, int]] = {kind: dict.fromkeys(END_REASONS, 0) for kind in KINDS}
        self._refused: dict[str, int] = dict.fromkeys(REASONS, 0)
        self._recordings: dict[str, int] = dict.fromkeys(RECORDINGS, 0)

    def started(self, kind: str) -> None:
        _count(self._started, kind)

    def ended(self, kind: str, reason: str) -> None:
        _count(self._ended[kind], reason)

    def refused(self, reason: str, count: int) -> None:
        _count(self._refused, reason, count)

    def recorded(self, state: str) -> None:
        _count(self._recordings, state)

    @property
    def figures(self) -> NodeCounts:
        return {
            "sessions_started": dict(self._started),
            "sessions_ended": {kind: dict(reasons) for kind, reasons in self._ended.items()},
            "attempts_refused": dict(self._refused),
            "recordings": dict(self._recordings),
        }


def _count(counts: dict[str, int], word: str, number: int = 1) -> None:
    counts[word] = counts.get(word, 0) + number


COUNTS = Counts()
"""This process's, and so its node's."""
