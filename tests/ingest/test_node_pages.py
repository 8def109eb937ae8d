"""What a node tells pages, live store and history each second."""

import logging
from dataclasses import replace

import pytest

from ingest import live_store
from ingest.contracts import Issue
from ingest.live_store import RedisLiveStore
from ingest.models import StatusEvent
from ingest.pages import NODE_LEFT_OUT, card
from ingest.services.history_writer import HistoryWriter
from ingest.services.keys import NewKey
from tests.background import free_port
from tests.ingest.control import NODE, NodeApp
from tests.ingest.ticks import SAMPLE, published, snapshot, tick_until, until, watch

pytestmark = pytest.mark.django_db(transaction=True)


STARVING: Issue = {
    "check": "starving",
    "level": "warning",
    "since": 1_800_000_000.0,
    "actual": "Nothing for 3 s",
    "expected": "2 s at most",
    "title": "Nothing has arrived for 3 s.",
    "advice": "Check that the encoder is running, then its uplink.",
    "value": 3.0,
    "limit": 2.0,
    "unit": "s",
}


@pytest.mark.both_forms
async def test_the_wall_gets_what_changed_and_what_is_gone(node: NodeApp) -> None:
    receive = await watch("live")
    one, two = snapshot(1), snapshot(2, name="cam2")
    await node.tick(at=100.0, streams=[one, two])
    first = await receive()
    assert (first["kind"], first["at"], first["gone"]) == ("update", 100.0, [])
    assert first["streams"] == [card(one), card(two)]
    assert [figures["node"] for figures in first["nodes"]] == [NODE]
    assert first["nodes"][0]["records"]
    assert not first["nodes"][0].keys() & set(NODE_LEFT_OUT), "what is for metrics alone costs pages nothing"
    changed = snapshot(2, name="cam2", players=1)
    await node.tick(at=101.0, streams=[one, changed])
    assert (await receive())["streams"] == [{"id": 2, "players": 1}]
    await node.tick(at=102.0, streams=[one])
    third = await receive()
    assert (third["streams"], third["gone"]) == ([], [2])


async def test_names_that_players_wait_for_are_no_streams(node: NodeApp) -> None:
    """Of none of them is there a row, nor a page."""
    receive = await watch("live")
    waiting = [snapshot(0, state="waiting", name=name) for name in ("next", "another")]
    await node.tick(at=100.0, streams=[*waiting, snapshot(7)])
    told = await receive()
    assert [card["id"] for card in told["streams"]] == [7]
    store = live_store.get_livestore()
    await until(lambda: [each["id"] for each in store.read().streams] == [7])


@pytest.mark.both_forms
async def test_a_streams_page_gets_its_samples(node: NodeApp) -> None:
    receive = await watch("stream.1")
    await node.tick(at=100.0, streams=[snapshot(1), snapshot(2)], samples=[SAMPLE, replace(SAMPLE, stream=2)])
    assert await receive() == {
        "kind": "sample",
        "at": 100.0,
        "stream": snapshot(1),
        "sample": {
            "at": 1_800_000_000.5,
            "video_kbps": 2500.0,
            "audio_kbps": 128.0,
            "fps": 30.0,
            "keyframe_interval": 2.0,
            "drift_dev": 1.5,
            "rtt_ms": SAMPLE.rtt_ms,
            "players": 3,
            "health": "good",
        },
    }
    await node.tick(at=101.0)
    assert await receive() == {"kind": "sample", "at": 101.0, "stream": None, "sample": None}


async def test_what_json_cannot_say_does_not_reach_pages(node: NodeApp) -> None:
    receive = await watch("stream.1")
    await node.tick(streams=[snapshot(1, metadata={"framerate": float("nan"), "object": object()})])
    metadata = (await receive())["stream"]["metadata"]
    assert metadata["framerate"] is None


@pytest.mark.both_forms
async def test_the_live_store_holds_the_last_tick(node: NodeApp) -> None:
    store = live_store.get_livestore()
    await node.tick(at=100.0, streams=[snapshot(1)], samples=[SAMPLE])
    await until(lambda: store.read().streams and store.recent(1))
    assert store.read().streams == [snapshot(1)]
    assert [point["video_kbps"] for point in store.recent(1)] == [2500.0]
    await node.stop()
    assert store.read() == live_store.LiveView([], [])


@pytest.mark.both_forms
async def test_a_live_store_that_is_away_is_told_of_once(
    node: NodeApp, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ingest.consumers.node")
    store, away = live_store.get_livestore(), RedisLiveStore(f"redis://127.0.0.1:{free_port()}/0")
    monkeypatch.setattr(live_store, "_store", away)
    for at in range(3):
        await node.tick(at=at, streams=[snapshot(1)])
        await until(lambda: "takes no snapshots" in caplog.text)
    monkeypatch.setattr(live_store, "_store", store)
    await tick_until(node, lambda: store.read().streams, at=9.0, streams=[snapshot(1)])
    await until(lambda: "takes snapshots again" in caplog.text)
    assert len(caplog.records) == 2


@pytest.mark.both_forms
async def test_events_reach_the_streams_page(node: NodeApp, key: NewKey) -> None:
    receive = await watch(f"stream.{key.key.stream_id}")
    encoder, session_id = await published(key)
    event = await receive()
    assert event["kind"] == "event"
    assert (event["event"]["sequence"], event["event"]["kind"]) == (1, "session.started")
    assert event["event"]["session_id"] == session_id
    await encoder.disconnect()


# --- Health ---


async def test_issues_become_events_of_their_session(node: NodeApp, process: HistoryWriter, key: NewKey) -> None:
    encoder, session_id = await published(key)
    receive = await watch("live")
    worse = STARVING | {"level": "bad"}
    for issues in ([], [STARVING], [STARVING], [worse], [], []):
        await node.tick(streams=[snapshot(session_id=session_id, issues=issues)])
        await receive()
    await encoder.disconnect()
    await node.stop()
    events = StatusEvent.objects.filter(kind__startswith="health.").order_by("sequence")
    assert [(event.kind, event.level, event.code) async for event in events] == [
        ("health.opened", "warning", "starving"),
        ("health.opened", "bad", "starving"),
        ("health.cleared", "status", "starving"),
    ]
    first = await events.afirst()
    assert first is not None
    assert first.detail["actual"] == "Nothing for 3 s"
    assert first.description == "Nothing has arrived for 3 s."
