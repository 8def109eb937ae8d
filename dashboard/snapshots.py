"""The first text that a page or a WebSocket gets: a whole picture, after which updates follow."""

from collections.abc import Iterable, Mapping
from typing import Any

from dashboard import muting
from dashboard.history import latest_events
from dashboard.marks import Marks
from dashboard.notes import acknowledgements
from dashboard.streams import Now
from ingest import clean
from ingest.consumers.pages import to_json, to_json_list
from ingest.consumers.wallfeed import card, node_card
from ingest.contracts import StreamSnapshot
from ingest.livestore import CompactSample

SAMPLE_FIELDS = tuple(CompactSample.__annotations__)
"""The columns of a chart's samples."""


async def wall_text(now: Now, known: list[dict[str, Any]], marks: Mapping[int, Marks]) -> str:
    """The wall's snapshot: `streams` are those that nodes know of, `known` are all that exist, by id, app and name.
    `others` are what further nodes say of the same streams, so that updates of each find what they change. `marks`:
    what operators said of streams, by id.
    """
    nodes = to_json([node_card(node) for node in now.nodes])
    streams = await to_json_list(list(now.by_id.values()), card)
    return (
        f'{{"kind":"snapshot","at":{now.at:.3f},"nodes":{nodes},"streams":{streams},'
        f'"others":{await to_json_list(now.others, card)},"known":{to_json(known)},'
        f'"marks":{to_json(marks)}}}'
    )


def marks_text(at: float, marks: Mapping[int, Marks]) -> str:
    """An update of nothing else, of no node."""
    nothing: list[Any] = []
    return to_json(
        {"kind": "update", "at": at, "node": "", "nodes": nothing, "streams": nothing, "gone": nothing, "marks": marks}
    )


def stream_picture(
    at: float, stream: StreamSnapshot | None, samples: Iterable[CompactSample], told: dict[str, Any]
) -> dict[str, Any]:
    """One stream's snapshot. `stream` is null when no node knows of it. `told`: what `stream_told` read."""
    return {
        "kind": "snapshot",
        "at": at,
        # What a publisher claims may hold what JSON can't say, such as NaN.
        "stream": stream and (stream | {"metadata": clean.jsonable(stream["metadata"])}),
        "samples": columns(samples),
        **told,
    }


def stream_told(stream: int, session_id: str | None) -> dict[str, Any]:
    """What the database has for a stream's page. Blocking. `session_id`: of who publishes."""
    return {
        "events": latest_events(stream),
        "acks": acknowledgements(session_id),
        "mutes": muting.payloads(stream),
    }


def columns(samples: Iterable[CompactSample]) -> dict[str, list[Any]]:
    """Samples as one list for each field, as charts take them."""
    rows = list(samples)
    return {name: [row.get(name) for row in rows] for name in SAMPLE_FIELDS}
