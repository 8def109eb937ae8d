"""The first text that a page or a WebSocket gets: a whole picture, after which updates follow; with what operators said
of streams, as the wall shows it: muted alerts, and issues that somebody takes care of."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

from dashboard.streams import actions as streams_actions
from dashboard.streams.actions import ACKNOWLEDGED, FIRST_SEQUENCE, acknowledgements, active_mutes
from dashboard.streams.queries import Now, latest_events
from ingest import clean
from ingest.contracts import StreamSnapshot
from ingest.live_store import CompactSample
from ingest.models import StatusEvent
from ingest.pages import Drop, card, node_card, to_json, to_json_list


class Muted(TypedDict):
    check: str  # "": all of them.
    until: float | None  # Seconds since the epoch; None: until it is lifted.


class Acknowledged(TypedDict):
    """An issue as it was when it was acknowledged: one that opened anew since, or got worse, is another."""

    check: str
    since: float
    level: str


class Marks(TypedDict):
    muted: list[Muted]
    acknowledged: list[Acknowledged]


def no_marks() -> Marks:
    return {"muted": [], "acknowledged": []}


def marks(snapshots: Iterable[StreamSnapshot]) -> dict[int, Marks]:
    """By stream id, of those that have any. Two queries."""
    live = {each["session_id"]: each["id"] for each in snapshots if each["session_id"]}
    by_stream: dict[int, Marks] = {}
    for mute in active_mutes():
        until = mute.until.timestamp() if mute.until else None
        by_stream.setdefault(mute.stream_id, no_marks())["muted"].append({"check": mute.check_code, "until": until})
    events = StatusEvent.objects.filter(session__in=list(live), sequence__gte=FIRST_SEQUENCE, kind=ACKNOWLEDGED)
    for session, check, detail in events.values_list("session_id", "code", "detail"):
        of = by_stream.setdefault(live[str(session)], no_marks())
        of["acknowledged"].append(
            {"check": check, "since": float(detail.get("since", 0)), "level": str(detail.get("level", ""))}
        )
    return by_stream


SAMPLE_FIELDS = tuple(CompactSample.__annotations__)
"""The columns of a chart's samples."""


async def wall_text(now: Now, known: list[dict[str, Any]], marks: Mapping[int, Marks], drops: Sequence[Drop]) -> str:
    """The wall's snapshot: `streams` are those that nodes know of, `known` are all that exist, by id, app and name.
    `others` are what further nodes say of the same streams, so that updates of each find what they change. `marks`:
    what operators said of streams, by id. `drops`: those that ended although nobody meant it.
    """
    nodes = to_json([node_card(node) for node in now.nodes])
    streams = await to_json_list(list(now.by_id.values()), card)
    return (
        f'{{"kind":"snapshot","at":{now.at:.3f},"nodes":{nodes},"streams":{streams},'
        f'"others":{await to_json_list(now.others, card)},"known":{to_json(known)},'
        f'"marks":{to_json(marks)},"drops":{to_json(drops)}}}'
    )


def marks_text(at: float, marks: Mapping[int, Marks], drops: Sequence[Drop]) -> str:
    """An update of nothing else, of no node."""
    update: dict[str, Any] = {"kind": "update", "at": at, "node": "", "nodes": [], "streams": [], "gone": []}
    return to_json(update | {"marks": marks, "drops": drops})


def stream_picture(
    at: float, stream: StreamSnapshot | None, samples: Iterable[CompactSample], database_part: dict[str, Any]
) -> dict[str, Any]:
    """One stream's snapshot. `stream` is null when no node knows of it. `database_part`: of `stream_database_part`."""
    return {
        "kind": "snapshot",
        "at": at,
        # What a publisher claims may hold what JSON can't say, such as NaN.
        "stream": stream and (stream | {"metadata": clean.jsonable(stream["metadata"])}),
        "samples": columns(samples),
        **database_part,
    }


def stream_database_part(stream: int, session_id: str | None) -> dict[str, Any]:
    """What the database has for a stream's page. Blocking. `session_id`: of who publishes."""
    return {
        "events": latest_events(stream),
        "acks": acknowledgements(session_id),
        "mutes": streams_actions.mute_payloads(stream),
    }


def columns(samples: Iterable[CompactSample]) -> dict[str, list[Any]]:
    """Samples as one list for each field, as charts take them."""
    rows = list(samples)
    return {name: [row.get(name) for row in rows] for name in SAMPLE_FIELDS}
