"""What a node tells pages, live store, history and metrics each second, its pictures with it."""

import asyncio
import itertools
import logging
import uuid
from collections.abc import Iterator
from dataclasses import replace

import pytest

from ingest import live_store
from ingest.consumers.active import COUNTS
from ingest.consumers.node import Thumbnails
from ingest.contracts import NodeCounts, NodeThumbnail
from ingest.live_store import RedisLiveStore, Thumbnail, get_livestore
from ingest.pages import NODE_LEFT_OUT, card
from ingest.services.keys import NewKey
from tests.background import free_port
from tests.ingest.control import NODE, Connection, NodeApp
from tests.ingest.ticks import SAMPLE, is_up, published, record_event, snapshot, tick_until, until, watch

pytestmark = pytest.mark.usefixtures("process")


@pytest.mark.stores
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
            "drift": 12.0,
            "drift_dev": 1.5,
            "rtt_ms": SAMPLE.rtt_ms,
            "players": 3,
            "health": "good",
        },
    }
    await node.tick(at=101.0)
    assert await receive() == {"kind": "sample", "at": 101.0, "stream": None, "sample": None}


async def test_values_invalid_in_json_do_not_reach_pages(node: NodeApp) -> None:
    receive = await watch("stream.1")
    await node.tick(streams=[snapshot(1, metadata={"framerate": float("nan"), "object": object()})])
    metadata = (await receive())["stream"]["metadata"]
    assert metadata["framerate"] is None


@pytest.mark.stores
async def test_the_live_store_holds_the_last_tick(node: NodeApp) -> None:
    store = live_store.get_livestore()
    await node.tick(at=100.0, streams=[snapshot(1)], samples=[SAMPLE])
    await until(lambda: store.read().streams and store.recent(1))
    assert store.read().streams == [snapshot(1)]
    assert [point["video_kbps"] for point in store.recent(1)] == [2500.0]
    await node.stop()
    assert store.read() == live_store.LiveView([], [])


@pytest.mark.stores
async def test_unreachable_live_store_and_its_return_are_each_logged_once(
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


@pytest.mark.stores
async def test_events_reach_the_streams_page(node: NodeApp, key: NewKey) -> None:
    receive = await watch(f"stream.{key.key.stream_id}")
    encoder, session_id = await published(key)
    event = await receive()
    assert event["kind"] == "event"
    assert (event["event"]["sequence"], event["event"]["kind"]) == (1, "session.started")
    assert event["event"]["session_id"] == session_id
    await encoder.disconnect()


SECONDS: Iterator[int] = itertools.count(100)
SESSION, OTHER = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"


async def picture(node: NodeApp, at_ms: int, session: str = SESSION) -> None:
    await node.tell("node.thumbnail", path="live/cam1", session_id=session, at_ms=at_ms, image=b"WEBP")


async def shown(node: NodeApp, session: str | None) -> int | None:
    """What the next tick's snapshot in the live store says of the picture."""
    at = float(next(SECONDS))
    await tick_until(
        node,
        lambda: any(figures["at"] == at for figures in get_livestore().read().nodes),
        at=at,
        streams=[snapshot(1, session)],
    )
    (stream,) = get_livestore().read().streams
    return stream["thumbnail"]


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> "asyncio.Queue[int]":
    """When the pictures were taken that nodes have kept: the store's answer was there."""
    found: asyncio.Queue[int] = asyncio.Queue()
    keep = Thumbnails.keep

    async def keeping(thumbnails: Thumbnails, event: NodeThumbnail) -> None:
        await keep(thumbnails, event)
        found.put_nowait(event["at_ms"])

    monkeypatch.setattr(Thumbnails, "keep", keeping)
    return found


@pytest.mark.both_forms
async def test_a_picture_is_kept_and_named_in_the_next_snapshot(node: NodeApp, kept: "asyncio.Queue[int]") -> None:
    assert await shown(node, SESSION) is None
    for at_ms in (5000, 10_000):
        await picture(node, at_ms)
        async with asyncio.timeout(5):
            assert await kept.get() == at_ms
        assert get_livestore().thumbnail("live/cam1") == Thumbnail(at_ms, b"WEBP")
        assert await shown(node, SESSION) == at_ms
    assert await shown(node, OTHER) is None, "another publisher"
    assert await shown(node, None) is None


async def test_paths_of_watched_thumbnails_are_sent_to_the_server_once(node: NodeApp) -> None:
    await picture(node, 5000)
    await until(lambda: get_livestore().thumbnail("live/cam1") is not None)
    await node.tick(at=100.0)
    assert await node.app.receive_output(20) == {"type": "node.watch", "paths": ["live/cam1"]}
    await node.tick(at=101.0)
    await until(lambda: any(figures["at"] == 101.0 for figures in get_livestore().read().nodes))
    assert node.app.output_queue.empty(), "it has not changed"


async def test_failure_to_store_thumbnails_is_logged_once(
    node: NodeApp, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(live_store, "_store", RedisLiveStore(f"redis://127.0.0.1:{free_port()}/0"))
    with caplog.at_level(logging.WARNING, "ingest.consumers.node"):
        await picture(node, 5000)
        await picture(node, 10_000)
        await until(lambda: "The live store takes no thumbnails" in caplog.text)
        await node.tick(at=100.0)
    assert caplog.text.count("takes no thumbnails") == 1


async def test_node_snapshot_counts_sessions_refusals_and_recordings(node: NodeApp, key: NewKey) -> None:
    await is_up()
    before = COUNTS.figures
    encoder, session = await published(key)
    await encoder.unpublish(session)
    await encoder.disconnect()
    player = Connection()
    await player.connect()
    for _ in range(2):
        assert (await player.play("nothing"))["type"] == "rtmp.play.reject"
    await player.disconnect()
    failed = record_event(str(uuid.uuid4()), type="node.record", state="failed", name="", file="", size_bytes=0)
    await node.app.send_input(failed)
    await node.tick()
    await until(lambda: get_livestore().read().nodes)
    now: NodeCounts = get_livestore().read().nodes[0]["counts"]
    assert now["sessions_started"]["publish"] - before["sessions_started"]["publish"] == 1
    ended = {
        (kind, reason): count - before["sessions_ended"][kind][reason]
        for kind, reasons in now["sessions_ended"].items()
        for reason, count in reasons.items()
    }
    assert {each: count for each, count in ended.items() if count} == {("publish", "client_unpublish"): 1}
    assert now["attempts_refused"]["stream_unknown"] - before["attempts_refused"]["stream_unknown"] == 2
    assert now["recordings"]["failed"] - before["recordings"]["failed"] == 1
