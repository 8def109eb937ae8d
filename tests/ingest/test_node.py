"""A node's upkeep: what it tells and asks the database, what it has the server end, and what it makes up for later."""

import asyncio
import itertools
import logging
import threading
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest.mock import AsyncMock

import pytest
from asgiref.sync import sync_to_async
from django.core.management import call_command
from django.utils import timezone

from ingest.consumers import node as node_module
from ingest.consumers.active import ACTIVE, ActiveSession
from ingest.consumers.decisions import WRITE
from ingest.consumers.upkeep import SilenceTracker, Upkeep
from ingest.contracts import EndReason, Sample
from ingest.models import Application, Lease, Node, Session, Stream, StreamKey
from ingest.services import keys, nodes, sessions
from ingest.services.keys import NewKey
from tests.ingest.conftest import Rounds
from tests.ingest.control import NODE, Connection, NodeApp, flush
from tests.ingest.faults import (
    held,
    locked_database,
    missing_table,
    other_process,
    patient_database,
    process_elsewhere,
    until_queued,
    writing,
)
from tests.ingest.ticks import SAMPLE, drop_after_ticks, is_up, published, tick_until, until, watch

pytestmark = pytest.mark.usefixtures("process")


@pytest.fixture
async def live(node: NodeApp, key: NewKey) -> AsyncIterator[str]:
    """The session of an encoder that is live while the node is up."""
    await is_up()
    encoder, session_id = await published(key)
    yield session_id
    await encoder.disconnect()


async def is_resumed(node: NodeApp) -> None:
    async with asyncio.timeout(20):
        while (await drop_after_ticks(node))["type"] != "node.resume":
            pass
    await node.tell("node.resumed")
    await is_up()


async def test_a_node_tells_where_it_listens() -> None:
    others: Any = {"media_addresses": [("127.0.0.1", 8001)], "hls_addresses": [("127.0.0.1", 8002)]}
    node = NodeApp(tls_addresses=[("127.0.0.1", 1936)], **others)
    await node.tell("node.started")
    told = "127.0.0.1:1935, 127.0.0.1:1936 (TLS), 127.0.0.1:8001 (media), 127.0.0.1:8002 (HLS)"
    await until(Node.objects.filter(name=NODE, address=told).exists)
    await node.stop()


async def test_a_session_that_begins_during_the_start_goes_on(key: NewKey) -> None:
    """Its admission is written before the node's start, which the database was too slow for."""
    encoder, node, gate = Connection(), NodeApp(), threading.Event()
    await encoder.connect()
    WRITE.submit(gate.wait, 20)
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


@pytest.mark.both_forms
async def test_a_node_whose_name_another_process_has_ends_nothing(
    stream: Stream, rounds: Rounds, caplog: pytest.LogCaptureFixture
) -> None:
    """As it began while the database was away, it has no connections until the other one has stopped."""
    with other_process() as other:
        row = await Node.objects.acreate(name=NODE, seen_at=timezone.now() - timedelta(minutes=3), process=other)
        await Session.objects.acreate(kind="publish", app="live", name="cam1", stream=stream, node=row)
        node = NodeApp()
        await node.tell("node.started")
        assert await drop_after_ticks(node) == {"type": "node.drain", "grace_s": 0.0}
        await node.tell("node.draining")
        await rounds.pass_by(node, "start")
        assert (await Session.objects.aget()).ended_at is None
        assert (await Node.objects.aget()).process == other
    told = [record.getMessage() for record in caplog.records if "runs already" in record.getMessage()]
    assert len(told) == 1
    await is_resumed(node)
    assert (await Session.objects.aget()).end_reason == "node_lost"
    await node.stop()


@pytest.mark.both_forms
async def test_a_node_whose_name_was_taken_meanwhile_takes_no_more_connections(node: NodeApp) -> None:
    """As it stood still, or could not reach the database, for long. It goes on when the name is free again."""
    await is_up()
    await Node.objects.aupdate(process=process_elsewhere())
    assert await drop_after_ticks(node) == {"type": "node.drain", "grace_s": 0.0}
    await node.tell("node.draining")
    await Node.objects.aupdate(process="", state="down", stopped_at=timezone.now())
    await is_resumed(node)


@pytest.mark.both_forms
async def test_a_lease_that_expired_while_the_database_was_away_is_renewed(node: NodeApp, live: str) -> None:
    await Lease.objects.aupdate(expires_at=timezone.now() - timedelta(minutes=1))
    await tick_until(node, lambda: Lease.objects.get().expires_at >= timezone.now())
    assert node.app.output_queue.empty()


@pytest.mark.stores
async def test_publisher_silence_is_noted_in_its_lease_while_it_lasts(node: NodeApp, live: str) -> None:

    def sample(at: float, idle_ms: int) -> Sample:
        return replace(SAMPLE, session=live, at_us=int(at * 1e6), idle_ms=idle_ms)

    now = 1_800_000_000.0
    with locked_database():  # What can't be written is written when it can.
        await node.tick(samples=[sample(now, 900)])
        await node.tick(samples=[sample(now + 1, 1900)])
        await writing()
    silent = Lease.objects.exclude(silent_since=None)
    await tick_until(node, silent.exists, seconds=5, samples=[sample(now + 2, 2900)])
    since = (await silent.aget()).silent_since
    assert since is not None
    assert since.timestamp() == pytest.approx(now - 0.9)
    spoken = Lease.objects.filter(silent_since=None)
    await tick_until(node, spoken.exists, samples=[sample(now + 3, 100)])


def test_silence_that_ended_before_it_was_written_is_reported_as_over_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = ActiveSession(uuid.UUID(SAMPLE.session), "publish", "live", "cam1", 1, 1, 1, NODE, "192.0.2.7", "OBS")
    monkeypatch.setitem(ACTIVE, SAMPLE.session, session)
    tracker = SilenceTracker()
    tracker.observe([replace(SAMPLE, idle_ms=1900)])
    silent, speaking = tracker.changes()
    assert (set(silent), speaking) == ({session.id}, set())
    tracker.observe([replace(SAMPLE, idle_ms=100)])
    assert session.silent_since is None
    assert tracker.changes() == ({}, set()), "the silence is still being written"
    tracker.written(silent, speaking)
    assert tracker.changes() == ({}, {session.id})
    tracker.written({}, {session.id})
    assert tracker.changes() == ({}, set())


async def test_restarted_node_clears_the_silence_its_former_process_noted(
    node: NodeApp, live: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_module, "SESSIONS_END_S", 0.1)  # The session goes on while the successor stops.
    await Lease.objects.aupdate(silent_since=timezone.now())
    successor = NodeApp()
    await successor.tell("node.started")
    await until(Lease.objects.filter(silent_since=None).exists)
    await successor.stop()


def rotate(key: StreamKey) -> None:
    keys.rotate(key=key, grace=timedelta(hours=1))
    StreamKey.objects.filter(pk=key.pk).update(grace_until=timezone.now())


TAKEN_AWAY: dict[str, Callable[[StreamKey], object]] = {
    "revoked by command": lambda key: call_command("streamkey", "revoke", str(key.pk), "--json"),
    "disabled": lambda key: StreamKey.objects.filter(pk=key.pk).update(enabled=False),
    "expired": lambda key: StreamKey.objects.filter(pk=key.pk).update(expires_at=timezone.now()),
    "rotated": rotate,
    "deleted": lambda key: key.delete(),
    "of a disabled stream": lambda key: Stream.objects.update(enabled=False),
    "of a disabled application": lambda key: Application.objects.update(enabled=False),
}


@pytest.mark.both_forms
@pytest.mark.parametrize("act", TAKEN_AWAY.values(), ids=TAKEN_AWAY)
async def test_session_whose_key_or_stream_became_invalid_is_dropped_at_next_poll(
    node: NodeApp, key: NewKey, live: str, act: Callable[[StreamKey], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which comes with a tick."""
    looks: list[list[tuple[uuid.UUID, EndReason]]] = []
    due = sessions.due_to_end

    def look(**about: Any) -> list[tuple[uuid.UUID, EndReason]]:
        looks.append(due(**about))
        return looks[-1]

    monkeypatch.setattr(sessions, "due_to_end", look)
    await sync_to_async(act)(key.key)
    assert await drop_after_ticks(node) == {"type": "node.drop", "session_id": live, "reason": "key_revoked"}
    assert looks[0] == [(uuid.UUID(live), "key_revoked")]


async def test_node_polls_for_revocations_with_each_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ticks come each second."""
    looks, never = AsyncMock(), AsyncMock(side_effect=AssertionError)
    monkeypatch.setattr(Upkeep, "_revocations", looks)
    for name in ("_start", "_leases", "_sweep"):
        monkeypatch.setattr(Upkeep, name, AsyncMock())
    upkeep = Upkeep(NODE, "", never)
    upkeep._row = 1
    for second in range(5):
        for round_ in upkeep.due(100.0 + second):
            await round_
        assert looks.await_count == second + 1


async def test_a_key_in_its_grace_goes_on(node: NodeApp, key: NewKey, live: str, rounds: Rounds) -> None:
    await sync_to_async(keys.rotate)(key=key.key, grace=timedelta(hours=1))
    await rounds.pass_by(node, "revocations")
    assert node.app.output_queue.empty()


@pytest.mark.both_forms
@pytest.mark.parametrize("reason", ["kicked", "lease_lost", "replaced"])
async def test_a_session_ends_that_only_the_database_knows_to_be_over(node: NodeApp, live: str, reason: str) -> None:
    """One that was replaced even where the node finds its lease gone before it reads why."""
    if reason != "kicked":
        await Lease.objects.aupdate(session=None)
    if reason == "replaced":
        await Node.objects.filter(name=NODE).aupdate(name="hidden")  # So that the look for stops finds nothing.
    if reason != "lease_lost":
        await Session.objects.aupdate(stop_requested=reason)
    assert await drop_after_ticks(node) == {"type": "node.drop", "session_id": live, "reason": reason}


@pytest.mark.stores
async def test_ticks_go_on_while_the_database_is_locked(node: NodeApp, live: str) -> None:
    receive = await watch("live")
    with patient_database(20), locked_database():  # Who waits for the database is too late for `receive`.
        stuck, ticks_since = asyncio.create_task(writing()), 0
        for second in itertools.count():
            await node.tick(at=float(second))
            assert (await receive())["at"] == second
            ticks_since += stuck.done()
            if ticks_since == 5:
                break
            await asyncio.sleep(0.02)
    assert (await Lease.objects.aget()).session_id is not None


async def test_tick_with_an_invalid_snapshot_does_not_stop_later_ticks(node: NodeApp) -> None:
    receive = await watch("live")
    await node.tick(at=1.0, streams=[{"nonsense": True}])
    await node.tick(at=2.0)
    assert (await receive())["at"] == 2.0


async def in_state(node: NodeApp, state: str) -> None:
    await tick_until(node, Node.objects.filter(name=NODE, state=state).exists, seconds=8)


@pytest.mark.both_forms
async def test_the_players_of_a_node_that_was_taken_for_dead_end(node: NodeApp, stream: Stream, rounds: Rounds) -> None:
    """Their sessions are over in the database: no kick and no revocation would reach them."""
    await is_up()
    player = Connection()
    await player.connect()
    session_id = (await player.play("cam1"))["session_id"]
    await asyncio.to_thread(flush)
    await rounds.pass_by(node, "leases")  # The look of the start is over.
    later = timezone.now() + timedelta(seconds=40)
    ended = await sync_to_async(nodes.sweep)(now=later)
    assert [str(session.pk) for session in ended] == [session_id]
    assert await drop_after_ticks(node) == {"type": "node.drop", "session_id": session_id, "reason": "lease_lost"}
    await player.disconnect()
    await in_state(node, "up")
    assert (await Session.objects.aget()).end_reason == "node_lost"


WAITS_S = 0.2
"""How long a write waits for a locked database here. In the product it is longer."""


@pytest.mark.both_forms
async def test_a_drain_that_could_not_be_written_is_written_later(
    node: NodeApp, rounds: Rounds, caplog: pytest.LogCaptureFixture
) -> None:
    await is_up()

    async def fail_to_write(event: str, *, former: str) -> None:
        before = caplog.text.count("state was not written")
        with locked_database():
            await node.tell(event)
            await until(lambda: caplog.text.count("state was not written") > before)
            await rounds.pass_by(node, "leases")
            assert (await Node.objects.aget(name=NODE)).state == former

    with patient_database(WAITS_S):
        await fail_to_write("node.draining", former="up")
        await in_state(node, "draining")
        await fail_to_write("node.resumed", former="draining")
        await in_state(node, "up")
    await rounds.pass_by(node, "leases")
    assert (await Node.objects.aget(name=NODE)).state == "up"


@pytest.mark.both_forms
async def test_a_drain_that_is_written_just_before_the_nodes_start_stays(
    rounds: Rounds, caplog: pytest.LogCaptureFixture
) -> None:
    """The database was away as the node started. Both are written before the node knows of either."""
    node = NodeApp()
    with missing_table("ingest_node"):
        await node.tell("node.started")
        await until(lambda: "(start) waits for the database" in caplog.text)
    with held(WRITE):
        await node.tell("node.draining")
        await until_queued(WRITE, 1)
        await node.tick()
        await until_queued(WRITE, 2)
    WRITE.submit(int).result(10)  # The loop stands still, so that it learns of both at once.
    await rounds.pass_by(node, "leases")
    await in_state(node, "draining")
    await node.tell("node.resumed")
    await in_state(node, "up")
    await node.stop()


async def test_an_outage_is_said_once(node: NodeApp, rounds: Rounds, caplog: pytest.LogCaptureFixture) -> None:
    """Although some of what a node asks is answered meanwhile, as by a standby."""
    await rounds.pass_by(node, "leases", 1)  # The start is over, which the database shows before the node knows.
    with caplog.at_level(logging.INFO, "ingest.consumers.upkeep"):
        with patient_database(WAITS_S), locked_database():
            await rounds.pass_by(node, "leases", 3)
        await tick_until(node, lambda: "answers again" in caplog.text)
    said = [record.getMessage() for record in caplog.records if "upkeep" in record.name]
    assert [text.split(":")[0] for text in said] == [
        "The node's upkeep (leases) waits for the database",
        "The database answers again.",
    ]


@pytest.mark.both_forms
async def test_a_sample_of_no_session_spoils_no_tick(node: NodeApp) -> None:
    receive = await watch("live")
    await node.tick(at=1.0, samples=[replace(SAMPLE, session="nonsense", idle_ms=5000)])
    assert (await receive())["at"] == 1.0
    await is_up()
