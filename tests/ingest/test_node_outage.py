"""A node that could not reach the database for a while: what it makes up for, and what it says."""

import asyncio
import logging
from dataclasses import replace
from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from ingest.models import Node, Session, Stream
from ingest.services import nodes
from ingest.services.history_writer import HistoryWriter
from tests.ingest.control import NODE, Connection, NodeApp
from tests.ingest.faults import locked_database
from tests.ingest.ticks import SAMPLE, drop_after_ticks, is_up, tick_until, watch

pytestmark = pytest.mark.django_db(transaction=True)


async def ticking(node: NodeApp, seconds: float) -> None:
    """Ten ticks a second."""
    for _ in range(int(seconds * 10)):
        await node.tick()
        await asyncio.sleep(0.1)


async def in_state(node: NodeApp, state: str) -> None:
    await tick_until(node, Node.objects.filter(name=NODE, state=state).exists, seconds=8)


@pytest.mark.both_forms
async def test_the_players_of_a_node_that_was_taken_for_dead_end(
    node: NodeApp, process: HistoryWriter, stream: Stream
) -> None:
    """Their sessions are over in the database: no kick and no revocation would reach them."""
    await is_up()
    player = Connection()
    await player.connect()
    session_id = (await player.play("cam1"))["session_id"]
    assert await asyncio.to_thread(process.flush, 5)
    await ticking(node, 0.3)  # The look of the start is over.
    later = timezone.now() + timedelta(seconds=40)
    ended = await sync_to_async(nodes.sweep)(now=later)
    assert [str(session.pk) for session in ended] == [session_id]
    assert await drop_after_ticks(node) == {"type": "node.drop", "session_id": session_id, "reason": "lease_lost"}
    await player.disconnect()
    await in_state(node, "up")
    assert (await Session.objects.aget()).end_reason == "node_lost"


@pytest.mark.both_forms
async def test_a_drain_that_could_not_be_written_is_written_later(node: NodeApp, process: HistoryWriter) -> None:
    await is_up()
    with locked_database():
        await node.tell("node.draining")
        await ticking(node, 2.5)
        assert (await Node.objects.aget(name=NODE)).state == "up"
    await in_state(node, "draining")
    with locked_database():
        await node.tell("node.resumed")
        await ticking(node, 2.5)
    await in_state(node, "up")
    await ticking(node, 3.5)
    assert (await Node.objects.aget(name=NODE)).state == "up"


async def test_an_outage_is_said_once(node: NodeApp, process: HistoryWriter, caplog: pytest.LogCaptureFixture) -> None:
    """Although some of what a node asks is answered meanwhile, as by a standby."""
    await is_up()
    with caplog.at_level(logging.INFO, "ingest.consumers.upkeep"):
        with locked_database():
            await ticking(node, 6)
        async with asyncio.timeout(8):
            while "answers again" not in caplog.text:
                await ticking(node, 0.1)
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
