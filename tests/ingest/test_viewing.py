"""How a session was played, and what a viewer's page told of it: in its row, and in the lake."""

from typing import Any

import pytest

from ingest.consumers import recorder
from ingest.contracts import EventRecord, Totals
from ingest.models import Session, Stream
from ingest.services.keys import NewKey
from ingest.viewing import REPORT, SLACK_MS, believed
from tests.ingest.control import TOTALS, Connection, flush

LASTED_MS = 60_000
TOLD = {"join_ms": 800, "stalls": 2, "stalled_ms": 1500, "watched_ms": 58_000}


def totals(**told: Any) -> Totals:
    return TOTALS | {"duration_ms": LASTED_MS} | told  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ({}, TOLD),
        ({"join_ms": None}, {name: TOLD[name] for name in REPORT[1:]}),
        (dict.fromkeys(REPORT), {}),
        ({"watched_ms": LASTED_MS + SLACK_MS - 1500}, "all"),
        ({"watched_ms": LASTED_MS + SLACK_MS - 1499}, {}),
        ({"stalls": 750}, "all"),
        ({"stalls": 751}, {}),
        ({"join_ms": 10**15}, {}),
        ({"join_ms": -1}, {}),
        ({"stalled_ms": LASTED_MS + SLACK_MS}, {}),
        ({"stalls": 10**30}, {}),
        ({"stalls": True}, {}),
        ({"stalled_ms": 1.5}, {}),
        ({"watched_ms": "long"}, {}),
        ({"watched_ms": None}, {"join_ms": TOLD["join_ms"]}),
        ({"stalled_ms": None, "watched_ms": 10**15}, {"join_ms": TOLD["join_ms"]}),
    ],
)
def test_viewer_report_is_kept_only_as_far_as_it_is_plausible(told: dict[str, Any], kept: Any) -> None:
    given = TOLD | told
    found = believed(totals(**given))
    assert {name: value for name, value in found.items() if name in REPORT} == (given if kept == "all" else kept)
    assert {name: value for name, value in found.items() if name not in REPORT} == totals()


class Lake:
    def __init__(self) -> None:
        self.events: list[EventRecord] = []

    def event(self, record: EventRecord) -> None:
        self.events.append(record)


@pytest.fixture
def lake(monkeypatch: pytest.MonkeyPatch) -> Lake:
    made = Lake()
    monkeypatch.setattr(recorder, "get_writer", lambda: made)
    return made


async def played(scheme: str, told: dict[str, Any]) -> Session:
    """By a viewer that came and went."""
    connection = Connection()
    connection.app.scope["scheme"] = scheme
    await connection.connect()
    answer = await connection.play("cam1")
    end = {"type": "rtmp.stop", "stream_id": 1, "reason": "client_unpublish", "description": ""}
    await connection.tell(end | {"session_id": answer["session_id"], "totals": totals(**told)})
    await connection.disconnect()
    flush()
    return await Session.objects.aget(pk=answer["session_id"])


@pytest.mark.usefixtures("process")
@pytest.mark.parametrize(
    ("scheme", "protocol"),
    [("rtmp", "rtmp"), ("rtmps", "rtmps"), ("http", "flv"), ("ws", "flv"), ("hls", "hls"), ("pull", "rtmp")],
)
async def test_a_session_says_by_what_it_was_played(scheme: str, protocol: str, stream: Stream, lake: Lake) -> None:
    row = await played(scheme, {})
    assert row.protocol == protocol
    assert {event.protocol for event in lake.events} == {protocol}
    assert {getattr(event, name) for event in lake.events for name in REPORT} == {None}
    assert not row.summary.keys() & set(REPORT)


@pytest.mark.both_forms
@pytest.mark.usefixtures("process")
@pytest.mark.parametrize("scheme", ["rtmp", "rtmps"])
async def test_publish_session_records_its_protocol(scheme: str, key: NewKey, lake: Lake) -> None:
    connection = Connection()
    connection.app.scope["scheme"] = scheme
    await connection.connect()
    answer = await connection.publish(key.secret)
    await connection.disconnect()
    flush()
    row = await Session.objects.aget(pk=answer["session_id"])
    assert (row.protocol, {event.protocol for event in lake.events}) == (scheme, {scheme})


@pytest.mark.both_forms
@pytest.mark.usefixtures("process")
async def test_viewer_report_is_stored_in_the_row_and_in_the_lake(stream: Stream, lake: Lake) -> None:
    row = await played("hls", TOLD)
    assert {name: row.summary.get(name) for name in REPORT} == TOLD
    *before, end = lake.events
    assert (end.kind, {name: getattr(end, name) for name in REPORT}) == ("session.ended", TOLD)
    assert all(getattr(event, name) is None for event in before for name in REPORT)


@pytest.mark.usefixtures("process")
async def test_impossible_viewer_report_is_stored_in_neither_row_nor_lake(stream: Stream, lake: Lake) -> None:
    row = await played("hls", TOLD | {"watched_ms": 10**12})
    assert not row.summary.keys() & set(REPORT)
    assert row.bytes_out == TOTALS["bytes_out"]
    assert {name: getattr(lake.events[-1], name) for name in REPORT} == dict.fromkeys(REPORT)
