"""The first text that a page or a WebSocket gets: a whole picture, after which updates follow."""

from collections.abc import Iterable
from typing import Any

from dashboard.streams import Now
from ingest import clean
from ingest.consumers.pages import to_json, to_json_list
from ingest.contracts import StreamSnapshot
from ingest.livestore import CompactSample

SAMPLE_FIELDS = tuple(CompactSample.__annotations__)
"""The columns of a chart's samples."""


async def wall_text(now: Now, known: list[dict[str, Any]]) -> str:
    """The wall's snapshot: `streams` are those that nodes know of, `known` are all that exist, by id, app and name."""
    streams = await to_json_list(list(now.by_id.values()), whole=False)
    return (
        f'{{"kind":"snapshot","at":{now.at:.3f},"nodes":{to_json(now.nodes)},"streams":{streams},'
        f'"known":{to_json(known)}}}'
    )


def stream_picture(
    at: float, stream: StreamSnapshot | None, samples: Iterable[CompactSample], events: list[dict[str, Any]]
) -> dict[str, Any]:
    """One stream's snapshot. `stream` is null when no node knows of it."""
    return {
        "kind": "snapshot",
        "at": at,
        # What a publisher claims may hold what JSON can't say, such as NaN.
        "stream": stream and (stream | {"metadata": clean.jsonable(stream["metadata"])}),
        "samples": columns(samples),
        "events": events,
    }


def columns(samples: Iterable[CompactSample]) -> dict[str, list[Any]]:
    """Samples as one list for each field, as charts take them."""
    rows = list(samples)
    return {name: [row.get(name) for row in rows] for name in SAMPLE_FIELDS}
