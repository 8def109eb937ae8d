"""The first text that a page or a WebSocket gets: a whole picture, after which updates follow."""

from collections.abc import Iterable
from typing import Any

from dashboard.streams import Now
from ingest.contracts import StreamSnapshot
from ingest.livestore import CompactSample

SAMPLE_FIELDS = tuple(CompactSample.__annotations__)
"""The columns of a chart's samples."""


def wall_text_parts(now: Now, known: list[dict[str, Any]]) -> dict[str, Any]:
    """The wall's snapshot: `streams` are those that nodes know of, `known` are all that exist, by id, app and name."""
    return {"kind": "snapshot", "at": now.at, "nodes": now.nodes, "streams": list(now.by_id.values()), "known": known}


def stream_text_parts(
    at: float, stream: StreamSnapshot | None, samples: Iterable[CompactSample], events: list[dict[str, Any]]
) -> dict[str, Any]:
    """One stream's snapshot. `stream` is null when no node knows of it."""
    return {
        "kind": "snapshot",
        "at": at,
        "stream": stream,
        "samples": columns(samples),
        "events": events,
    }


def columns(samples: Iterable[CompactSample]) -> dict[str, list[Any]]:
    """Samples as one list for each field, as charts take them."""
    rows = list(samples)
    return {name: [row.get(name) for row in rows] for name in SAMPLE_FIELDS}
