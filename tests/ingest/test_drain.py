"""A node's drain, as an operator asks for it through the database, and its orderly stop while something holds it up:
real listeners with the project's consumers."""

import asyncio
import threading
import time
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from ingest.consumers import login
from ingest.consumers import node as node_consumer
from ingest.consumers.decisions import READ, WRITE
from ingest.management.commands import node as node_command
from ingest.models import Application, Attempt, Node, Session
from ingest.rtmp import events
from ingest.server import Deadlines
from ingest.services import keys
from ingest.services.bans import get_guard
from ingest.services.history_writer import HistoryWriter
from ingest.services.keys import NewKey
from ingest.telemetry import TelemetryWriter, get_writer
from tests.ingest.clients import go_live, watch_live
from tests.ingest.control import NODE, Connection, NodeApp, listening
from tests.ingest.faults import held, limited, locked_database, until_queued
from tests.ingest.operators import run_json
from tests.ingest.ticks import until
from tests.rtmp_client import Refused, RtmpClient
from tests.server.media import key_frame

pytestmark = pytest.mark.usefixtures("process")


command = sync_to_async(partial(run_json, "node"))


def in_state(state: str) -> Any:
    return Node.objects.filter(name=NODE, state=state).exists


async def test_a_drained_node_refuses_ends_and_resumes(key: NewKey, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_command, "WAIT_POLL_S", 0.05)
    async with listening() as port, RtmpClient(port=port) as encoder, RtmpClient(port=port) as late:
        await until(in_state("up"))
        stream_id = await go_live(encoder, key.secret, capsEx=1.0)
        await late.connect("live")
        shown = await command("drain", NODE, "--grace", "600")
        assert (shown["publishers"], shown["drain_grace_s"]) == (1, 600)
        request = await encoder.wait_for(events.StatusReceived, lambda event: "ReconnectRequest" in event.code)
        assert request.stream_id == 0
        await until(in_state("draining"))

        with pytest.raises(Refused) as refused:
            await late.play("cam1")
        assert refused.value.code == "NetStream.Play.Failed"
        assert "connect again" in refused.value.description
        attempts = Attempt.objects.filter(reason="draining")
        await until(attempts.exists)
        assert [(row.action, row.count, row.node) async for row in attempts] == [("play", 1, NODE)]

        await command("resume", NODE)
        await until(in_state("up"))
        await encoder.send_video(stream_id, 40, key_frame(1))
        async with RtmpClient(port=port) as player:
            await watch_live(player)
            await player.wait_count(events.VideoReceived, 2)

        done = await command("drain", NODE, "--grace", "1", "--wait")
        assert (done["state"], done["publishers"], done["players"]) == ("draining", 0, 0)
        await encoder.wait_closed()
        assert {session.end_reason async for session in Session.objects.filter(kind="publish")} == {"node_shutdown"}
        assert (await Node.objects.aget(name=NODE)).state == "draining"
    node = await Node.objects.aget(name=NODE)
    assert node.state == "down"


async def test_a_publisher_that_comes_to_a_draining_node_may_try_again(key: NewKey) -> None:
    """OBS takes NetStream.Publish.Failed for something that passes."""
    async with listening() as port, RtmpClient(port=port) as encoder:
        await until(in_state("up"))
        await encoder.connect("live")
        await command("drain", NODE)
        await until(in_state("draining"))
        with pytest.raises(Refused) as refused:
            await encoder.publish(key.secret)
        assert refused.value.code == "NetStream.Publish.Failed"
        await encoder.wait_closed()


async def test_connections_without_room_are_one_attempt() -> None:
    async with listening(max_connections=1) as port, RtmpClient(port=port):
        await until(in_state("up"))
        attempts = Attempt.objects.filter(reason="too_many_connections")
        for number in (1, 2):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            assert await reader.read() == b""
            writer.close()
            await until(attempts.filter(count=number).exists)
    (row,) = [row async for row in attempts]
    assert (row.action, row.address, row.node) == ("connect", "127.0.0.1", NODE)


@pytest.mark.both_forms
async def test_a_stop_without_the_database_says_what_was_not_written(
    key: NewKey, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """However short a time connections are given."""
    monkeypatch.setattr(node_consumer, "STOP_S", 1.5)
    with ExitStack() as later:  # Longer than the listener.
        async with listening() as port, RtmpClient(port=port) as encoder:
            await encoder.connect("live")
            await encoder.publish(key.secret)
            later.enter_context(limited(0.5))
            later.enter_context(locked_database())
    assert "The database did not take the last" in caplog.text
    assert "did not return" not in caplog.text


async def test_the_lake_is_closed_while_a_stop_waits_for_the_database(
    process: HistoryWriter, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    is_closing, flush, close = threading.Event(), process.flush, TelemetryWriter.close

    def noted(writer: TelemetryWriter) -> None:
        is_closing.set()
        close(writer)

    monkeypatch.setattr(TelemetryWriter, "close", noted)
    monkeypatch.setattr(process, "flush", lambda timeout: is_closing.wait(timeout) and flush(timeout))
    async with listening():
        await until(in_state("up"))
    assert is_closing.is_set()
    assert "The database did not take" not in caplog.text


async def test_stop_keeps_the_lake_open_until_the_running_round_is_done(process: HistoryWriter) -> None:
    """As the sessions of a lost node, which a round is about to end."""
    node = NodeApp()
    await node.tell("node.started")
    await until(in_state("up"))
    with held(WRITE):
        stop = asyncio.create_task(node.stop())
        await until_queued(WRITE, 1)
        assert get_writer() is not None
    await stop
    assert get_writer() is None


async def test_a_stop_waits_for_no_answer_that_is_held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login._random, "uniform", lambda _least, _most: 3600.0)
    await Application.objects.acreate(name="live")
    loop = asyncio.get_running_loop()
    patient = Deadlines(decision_s=60, application_s=60)
    async with listening(grace_s=60, deadlines=patient) as port, RtmpClient(port=port) as guesser:
        await guesser.connect("live")
        stream_id = await guesser.create_stream()
        guesser.protocol.publish(stream_id, keys.generate(), "live")
        await guesser.flush()
        await until(Attempt.objects.exists)
        stops = loop.time()
    assert loop.time() - stops < 20


async def test_banned_address_is_refused_without_waiting_for_a_busy_database(key: NewKey) -> None:
    banned = Connection()
    await banned.connect()
    for number in range(10):
        get_guard().wrong("192.0.2.7", f"guess-{number}", time.time())
    with held(READ):
        refused = await banned.ask(banned.publish_event(key.secret))
        assert refused["description"].startswith("Too many wrong keys")
        again = Connection()
        connect = {"type": "rtmp.connect", "credential": key.secret, "login": None}
        assert (await again.ask(connect))["type"] == "rtmp.reject"
    for each in (banned, again):
        await each.disconnect("rejected")
