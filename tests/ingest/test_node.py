"""The node's application: what it tells pages, lake and database each second, and what it has the server end."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import duckdb
import pytest
from asgiref.sync import sync_to_async
from channels.layers import get_channel_layer
from django.core.management import call_command
from django.utils import timezone

from ingest import livestore
from ingest.consumers.database import WRITE
from ingest.contracts import Issue, Sample, StreamSnapshot
from ingest.history import HistoryWriter
from ingest.models import Application, Lease, Node, Session, StatusEvent, Stream, StreamKey
from ingest.services import keys, leases
from ingest.services.keys import NewKey
from tests.ingest.control import NODE, Connection, NodeApp
from tests.ingest.test_consumers import locked_database

pytestmark = pytest.mark.django_db(transaction=True)

STARVING: Issue = {
    "check": "starving",
    "level": "warning",
    "since": 1_800_000_000.0,
    "actual": "Nothing for 3 s",
    "expected": "2 s at most",
    "title": "Nothing has arrived for 3 s.",
    "advice": "Check that the encoder is running, then its uplink.",
}


def snapshot(stream: int = 1, session_id: str | None = None, **fields: Any) -> StreamSnapshot:
    base: StreamSnapshot = {
        "id": stream,
        "app": "live",
        "name": "cam1",
        "state": "live",
        "health": "good",
        "issues": [],
        "players": 0,
        "session_id": session_id,
        "node": NODE,
        "since": 1_800_000_000.0,
        "address": "192.0.2.7",
        "encoder": "OBS",
        "target_kbps": None,
        "video_kbps": 2500.0,
        "audio_kbps": 128.0,
        "wire_kbps": 2650.0,
        "out_kbps": 0.0,
        "fps": 30.0,
        "fps_media": 30.0,
        "keyframe_interval": 2.0,
        "open_gop_age": 0.5,
        "drift": 0.0,
        "drift_dev": 0.0,
        "av_skew": 0.0,
        "idle_ms": 5,
        "rtt_ms": None,
        "retrans": None,
        "ts_gap": 0,
        "ts_regress": 0,
        "missing_frames_est": 0,
        "slow_players": 0,
        "dropped_frames": 0,
        "media": {},
        "metadata": {},
    }
    return base | fields  # type: ignore[return-value]


SAMPLE = Sample(
    session="s",
    sequence=1,
    at_us=1_800_000_000_500_000,
    elapsed_ms=1000,
    node=NODE,
    app="live",
    name="cam1",
    stream=1,
    key=None,
    video_bytes=312_500,
    audio_bytes=16_000,
    data_bytes=0,
    wire_bytes=330_000,
    video_kbps=2500.0,
    audio_kbps=128.0,
    wire_kbps=2640.0,
    video_frames=30,
    audio_frames=43,
    keyframes=1,
    fps=30.0,
    fps_media=30.0,
    keyframe_interval=2.0,
    keyframe_interval_max=2.0,
    open_gop_age=0.5,
    drift=0.0,
    drift_dev=1.5,
    av_skew=0.0,
    ts_gap=0,
    ts_regress=0,
    missing_frames_est=0,
    idle_ms=5,
    rtt_ms=None,
    retrans=None,
    players=3,
    out_bytes=0,
    out_kbps=0.0,
    slow_players=0,
    dropped_frames=0,
    health="good",
)


@pytest.fixture
async def node(process: HistoryWriter) -> AsyncIterator[NodeApp]:
    made = NodeApp()
    await made.tell("node.started")
    yield made
    await made.stop()


async def until(condition: Callable[[], Any], seconds: float = 5) -> None:
    async with asyncio.timeout(seconds):
        while not await sync_to_async(condition)():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def is_up() -> None:
    await until(Node.objects.filter(name=NODE, state="up", address="127.0.0.1:1935").exists)


async def published(key: NewKey) -> tuple[Connection, str]:
    encoder = Connection()
    await encoder.connect()
    answer = await encoder.publish(key.secret)
    return encoder, answer["session_id"]


async def drop_after_ticks(node: NodeApp, seconds: float = 5) -> dict[str, Any]:
    """Ticks until the node has the server drop a session."""
    async with asyncio.timeout(seconds):
        while node.app.output_queue.empty():
            await node.tick()
            await asyncio.sleep(0.1)
    dropped: dict[str, Any] = await node.app.receive_output()
    return dropped


# --- Pages ---


async def watch(group: str) -> Callable[[], Any]:
    layer = get_channel_layer()
    channel = await layer.new_channel()
    await layer.group_add(group, channel)

    async def receive() -> dict[str, Any]:
        async with asyncio.timeout(5):
            found: dict[str, Any] = json.loads((await layer.receive(channel))["text"])
            return found

    return receive


def card(of: StreamSnapshot) -> dict[str, Any]:
    """What the wall gets of a snapshot: all but what the publisher claims, which may be long."""
    return {name: value for name, value in of.items() if name != "metadata"}


async def test_the_wall_gets_what_changed_and_what_is_gone(node: NodeApp) -> None:
    receive = await watch("live")
    one, two = snapshot(1), snapshot(2, name="cam2")
    await node.tick(at=100.0, streams=[one, two])
    first = await receive()
    assert (first["kind"], first["at"], first["gone"]) == ("update", 100.0, [])
    assert first["streams"] == [card(one), card(two)]
    assert [figures["node"] for figures in first["nodes"]] == [NODE]
    changed = snapshot(2, name="cam2", players=1)
    await node.tick(at=101.0, streams=[one, changed])
    assert (await receive())["streams"] == [card(changed)]
    await node.tick(at=102.0, streams=[one])
    third = await receive()
    assert (third["streams"], third["gone"]) == ([], [2])


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


async def test_the_live_store_holds_the_last_tick(node: NodeApp) -> None:
    store = livestore.get_livestore()
    await node.tick(at=100.0, streams=[snapshot(1)], samples=[SAMPLE])
    await until(lambda: store.read().streams)
    assert store.read().streams == [snapshot(1)]
    assert [point["video_kbps"] for point in store.recent(1)] == [2500.0]
    await node.stop()
    assert store.read() == ([], [])


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


# --- Upkeep ---


async def test_a_node_is_up_seen_and_down(node: NodeApp) -> None:
    await is_up()
    await node.stop()
    assert (await Node.objects.aget(name=NODE)).state == "down"


async def test_what_a_former_process_left_is_closed(process: HistoryWriter, stream: Stream) -> None:
    row = await Node.objects.acreate(name=NODE)
    left = await Session.objects.acreate(kind="publish", app="live", name="cam1", stream=stream, node=row)
    later = timezone.now() + timedelta(seconds=10)
    await Lease.objects.acreate(stream=stream, session=left, node=row, expires_at=later)
    node = NodeApp()
    await node.tell("node.started")
    await until(Session.objects.filter(end_reason="node_lost").exists)
    assert (await Lease.objects.aget()).session_id is None
    await node.stop()


async def test_a_session_that_begins_during_the_start_goes_on(process: HistoryWriter, key: NewKey) -> None:
    """Its admission is written before the node's start, which the database was too slow for."""
    encoder, node, gate = Connection(), NodeApp(), threading.Event()
    await encoder.connect()
    WRITE.submit(gate.wait, 5)
    await encoder.tell(encoder.publish_event(key.secret))
    await until(WRITE._work_queue.qsize)
    await node.tell("node.started")
    await until(lambda: WRITE._work_queue.qsize() == 2)
    gate.set()
    assert (await encoder.answer())["type"] == "rtmp.publish.accept"
    await is_up()
    assert (await Session.objects.aget()).ended_at is None
    await encoder.disconnect()
    await node.stop()


async def test_a_node_whose_name_another_process_may_have_says_so(
    process: HistoryWriter, caplog: pytest.LogCaptureFixture
) -> None:
    now = timezone.now()
    await Node.objects.acreate(name=NODE, state="up", seen_at=now - timedelta(seconds=3))
    await Node.objects.acreate(name="node-b", state="up", seen_at=now - timedelta(minutes=3))
    await Node.objects.acreate(name="node-c", state="down", seen_at=now)
    for name in (NODE, "node-b", "node-c"):
        node = NodeApp(name)
        await node.tell("node.started")
        await until(Node.objects.filter(name=name, address="127.0.0.1:1935").exists)
        await node.stop()
    warnings = [record.getMessage() for record in caplog.records if "RTMPWEB_NODE" in record.getMessage()]
    assert len(warnings) == 1
    assert warnings[0].startswith(f"A node {NODE} was up 3 s ago.")


async def test_leases_are_renewed(node: NodeApp, key: NewKey) -> None:
    await is_up()
    encoder, _ = await published(key)
    taken = (await Lease.objects.aget()).expires_at
    async with asyncio.timeout(6):
        while (await Lease.objects.aget()).expires_at == taken:
            await node.tick()
            await asyncio.sleep(0.1)
    await encoder.disconnect()


async def test_a_lost_lease_ends_the_session(node: NodeApp, key: NewKey) -> None:
    await is_up()
    encoder, session_id = await published(key)
    await Lease.objects.aupdate(session=None)
    assert await drop_after_ticks(node) == {"type": "node.drop", "session_id": session_id, "reason": "lease_lost"}
    await encoder.disconnect()


def revoke_by_command(key: StreamKey) -> None:
    call_command("streamkey", "revoke", str(key.pk), "--json")


def disable_key(key: StreamKey) -> None:
    StreamKey.objects.filter(pk=key.pk).update(enabled=False)


def let_it_expire(key: StreamKey) -> None:
    StreamKey.objects.filter(pk=key.pk).update(expires_at=timezone.now())


def rotate_it(key: StreamKey) -> None:
    keys.rotate(key=key, grace=timedelta(milliseconds=10))


def delete_key(key: StreamKey) -> None:
    key.delete()


def disable_stream(key: StreamKey) -> None:
    Stream.objects.update(enabled=False)


def disable_application(key: StreamKey) -> None:
    Application.objects.update(enabled=False)


@pytest.mark.parametrize(
    "act",
    [revoke_by_command, disable_key, let_it_expire, rotate_it, delete_key, disable_stream, disable_application],
)
async def test_what_is_taken_away_ends_the_session_within_two_seconds(
    node: NodeApp, key: NewKey, act: Callable[[StreamKey], None]
) -> None:
    await is_up()
    encoder, session_id = await published(key)
    await sync_to_async(act)(key.key)
    assert await drop_after_ticks(node, 2) == {"type": "node.drop", "session_id": session_id, "reason": "key_revoked"}
    await encoder.disconnect()


async def test_a_key_in_its_grace_goes_on(node: NodeApp, key: NewKey) -> None:
    await is_up()
    encoder, _ = await published(key)
    await sync_to_async(keys.rotate)(key=key.key, grace=timedelta(hours=1))
    for _ in range(15):
        await node.tick()
        await asyncio.sleep(0.1)
    assert node.app.output_queue.empty()
    await encoder.disconnect()


async def test_a_stop_that_only_the_database_knows(node: NodeApp, key: NewKey) -> None:
    await is_up()
    encoder, session_id = await published(key)
    await Session.objects.aupdate(stop_requested="kicked")
    assert await drop_after_ticks(node) == {"type": "node.drop", "session_id": session_id, "reason": "kicked"}
    await encoder.disconnect()


# --- Trouble ---


async def test_ticks_go_on_while_the_database_is_locked(node: NodeApp, key: NewKey) -> None:
    await is_up()
    encoder, _ = await published(key)
    receive = await watch("live")
    loop = asyncio.get_running_loop()
    with locked_database():
        for second in range(20):
            asked = loop.time()
            await node.tick(at=float(second))
            assert (await receive())["at"] == second
            assert loop.time() - asked < 0.5
            await asyncio.sleep(0.2)
    await until(lambda: leases.is_held(stream=key.key.stream_id, now=timezone.now()))
    await encoder.disconnect()


async def test_a_bad_tick_is_not_the_last(node: NodeApp) -> None:
    receive = await watch("live")
    await node.tick(at=1.0, streams=[{"nonsense": True}])
    await node.tick(at=2.0)
    assert (await receive())["at"] == 2.0


# --- The lake ---


async def test_samples_and_events_reach_the_lake(
    node: NodeApp, process: HistoryWriter, key: NewKey, settings: Any
) -> None:
    encoder, session_id = await published(key)
    wrong = Connection(address="198.51.100.9")
    await wrong.connect()
    await wrong.publish(keys.generate())
    await wrong.disconnect("rejected")
    await node.tick(samples=[replace(SAMPLE, session=session_id)])
    await encoder.unpublish(session_id)
    await encoder.disconnect()
    await node.stop()
    samples = duckdb.read_parquet(f"{settings.LAKE_DIR}/samples/**/*.parquet")
    assert samples.project("session, video_bytes").fetchall() == [(session_id, 312_500)]
    events = duckdb.read_parquet(f"{settings.LAKE_DIR}/events/**/*.parquet")
    assert sorted(events.project("kind, sequence, reason, bytes_in").fetchall()) == [
        ("attempt", 0, "key_unknown", 0),
        ("session.ended", 2, "client_unpublish", 1000),
        ("session.started", 1, "", 0),
    ]
    hashes = events.project("address_hash").distinct().fetchall()
    assert len(hashes) == 2
    assert not [found for (found,) in hashes if "192.0.2" in found]


async def test_an_imported_key_does_not_reach_the_lake(
    node: NodeApp, process: HistoryWriter, stream: Stream, settings: Any
) -> None:
    """Nothing tells such a key from a name but its look-up: so no name that isn't a stream's is written."""
    imported = await sync_to_async(keys.create)(stream=stream, secret="oldserver-key-1")
    other = await sync_to_async(keys.create)(stream=stream)
    client = Connection()
    await client.connect()
    assert (await client.play(imported.secret))["type"] == "rtmp.play.reject"
    assert (await client.publish(other.secret, name=imported.secret))["type"] == "rtmp.publish.reject"
    await client.disconnect("rejected")
    await node.stop()
    events = duckdb.read_parquet(f"{settings.LAKE_DIR}/events/**/*.parquet")
    assert sorted(events.project("session_kind, reason").fetchall()) == [
        ("play", "stream_unknown"),
        ("publish", "key_other_stream"),
    ]
    assert imported.secret not in str(events.fetchall())


async def test_an_end_that_a_dead_process_could_not_record_is_recorded(
    process: HistoryWriter, stream: Stream, key: NewKey, settings: Any
) -> None:
    """By its successor, or by whoever takes over the lease of a node that never came back."""
    now = timezone.now()
    own = await Node.objects.acreate(name=NODE, state="up", seen_at=now - timedelta(minutes=1))
    other = await Node.objects.acreate(name="node-b", state="up", seen_at=now - timedelta(seconds=20))
    began = now - timedelta(hours=1)
    fields = {"app": "live", "name": "cam1", "stream": stream, "address": "192.0.2.7", "started_at": began}
    player = await Session.objects.acreate(kind="play", node=own, **fields)
    publisher = await Session.objects.acreate(kind="publish", node=other, key=key.key, **fields)
    await StatusEvent.objects.acreate(session=player, sequence=1, kind="session.started")
    await Lease.objects.acreate(stream=stream, session=publisher, node=other, expires_at=now - timedelta(seconds=9))
    node = NodeApp()
    await node.tell("node.started")
    await is_up()
    encoder, _ = await published(key)
    await encoder.disconnect()
    await node.stop()
    found = {
        event.session_id: (event.code, event.at)
        async for event in StatusEvent.objects.filter(kind="session.ended", code="node_lost")
    }
    rows = {session.pk: session async for session in Session.objects.filter(pk__in=[player.pk, publisher.pk])}
    assert found == {pk: ("node_lost", session.ended_at) for pk, session in rows.items()}
    assert rows[player.pk].ended_at == own.seen_at
    lake = duckdb.read_parquet(f"{settings.LAKE_DIR}/events/**/*.parquet").filter("reason = 'node_lost'")
    assert sorted(lake.project("session, kind, session_kind, node, stream").fetchall()) == sorted(
        [
            (str(player.pk), "session.ended", "play", NODE, stream.pk),
            (str(publisher.pk), "session.ended", "publish", "node-b", stream.pk),
        ]
    )
