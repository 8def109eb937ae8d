"""Drain as an operator asks for it: through the database, of a real listener with the project's consumers."""

import asyncio
import io
import json
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.core.management import CommandError, call_command
from django.utils import timezone

from ingest.models import Attempt, Node, Session
from ingest.rtmp import events
from ingest.services import nodes
from ingest.services.history_writer import HistoryWriter
from ingest.services.keys import NewKey
from tests.ingest.control import NODE
from tests.ingest.listener import listening
from tests.ingest.server.media import AVC_HEADER, key_frame
from tests.ingest.ticks import until
from tests.rtmp_client import Refused, RtmpClient


def run(*words: str) -> Any:
    out = io.StringIO()
    call_command("node", *words, "--json", stdout=out)
    return json.loads(out.getvalue())


command = sync_to_async(run)


def in_state(state: str) -> Any:
    return Node.objects.filter(name=NODE, state=state).exists


@pytest.mark.django_db(transaction=True)
async def test_a_drained_node_refuses_ends_and_resumes(process: HistoryWriter, key: NewKey) -> None:
    async with listening() as port, RtmpClient(port=port) as encoder, RtmpClient(port=port) as late:
        await until(in_state("up"))
        await encoder.connect("live", capsEx=1.0)
        stream_id = await encoder.publish(key.secret)
        await encoder.send_video(stream_id, 0, AVC_HEADER)
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
            await player.connect("live")
            await player.play("cam1")
            await player.wait_count(events.VideoReceived, 2)

        done = await command("drain", NODE, "--grace", "1", "--wait")
        assert (done["state"], done["publishers"], done["players"]) == ("draining", 0, 0)
        await encoder.wait_closed()
        assert {session.end_reason async for session in Session.objects.filter(kind="publish")} == {"node_shutdown"}
        assert (await Node.objects.aget(name=NODE)).state == "draining"
    node = await Node.objects.aget(name=NODE)
    assert node.state == "down"


@pytest.mark.django_db(transaction=True)
async def test_a_publisher_that_comes_to_a_draining_node_may_try_again(process: HistoryWriter, key: NewKey) -> None:
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


@pytest.mark.django_db(transaction=True)
async def test_connections_without_room_are_one_attempt(process: HistoryWriter) -> None:
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


@pytest.mark.django_db
class TestServices:
    @pytest.mark.both_forms
    def test_a_drain_belongs_to_its_process(self) -> None:
        now = timezone.now()
        Node.objects.create(name=NODE, state="up")
        nodes.request_drain(name=NODE, grace_s=30, now=now)
        asked = nodes.drain(name=NODE)
        assert asked is not None
        assert asked.left_s(now + timedelta(seconds=10)) == 20
        assert asked.left_s(now + timedelta(seconds=31)) == 0
        nodes.started(name=NODE, address="", now=now, process_since=now - timedelta(seconds=1))
        assert nodes.drain(name=NODE) == asked
        nodes.started(name=NODE, address="", now=now, process_since=now + timedelta(seconds=1))
        assert nodes.drain(name=NODE) is None

    @pytest.mark.both_forms
    def test_a_draining_node_that_was_taken_for_dead_still_drains(self) -> None:
        now = timezone.now()
        Node.objects.create(name=NODE, state="draining")
        nodes.request_drain(name=NODE, grace_s=30, now=now)
        for request, state in ((True, "draining"), (False, "up")):
            Node.objects.update(state="down", drain_requested_at=now if request else None)
            nodes.seen(name=NODE, now=now)
            assert Node.objects.get().state == state

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("drain", "node-9"), "no node node-9. Known nodes: node-a, node-b"),
            (("drain", "node-b"), "is down"),
            (("resume", "node-b"), "is down"),
            (("drain", NODE, "--grace", "-1"), "expected 0 to"),
            (("forget", NODE), "is up. Only one that is down"),
            (("forget", "node-9"), "no node node-9"),
        ],
    )
    def test_what_is_wrong_is_said(self, words: tuple[str, ...], said: str) -> None:
        Node.objects.create(name=NODE, state="up")
        Node.objects.create(name="node-b", state="down")
        with pytest.raises(CommandError, match=said):
            run(*words)

    @pytest.mark.both_forms
    def test_one_that_is_gone_is_forgotten_and_history_keeps_it(self) -> None:
        node = Node.objects.create(name="node-b", state="down")
        Session.objects.create(kind="play", app="live", name="cam1", node=node, ended_at=timezone.now())
        assert run("forget", "node-b")["state"] == "down"
        node.refresh_from_db()
        assert node.stopped_at == node.seen_at
        assert node.sessions.count() == 1

    @pytest.mark.both_forms
    def test_list(self) -> None:
        for name in ("node-e", "node-c", "node-b", "node-d"):
            Node.objects.create(name=name, state="down")
        node = Node.objects.create(name=NODE, state="up", address="127.0.0.1:1935")
        Session.objects.create(kind="play", app="live", name="cam1", node=node)
        Session.objects.create(kind="publish", app="live", name="cam1", node=node, ended_at=timezone.now())
        found = run("list")
        assert found["count"] == 5
        assert [(row["name"], row["publishers"], row["players"]) for row in found["items"]] == [
            (NODE, 0, 1),
            *((f"node-{letter}", 0, 0) for letter in "bcde"),
        ]
        out = io.StringIO()
        call_command("node", "list", stdout=out)
        assert f"{NODE}  up  127.0.0.1:1935  publishers=0  players=1" in out.getvalue()
