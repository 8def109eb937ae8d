"""Takeovers, pauses and reconnections as encoders and players see them: real connections to media nodes that share a
database."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from unittest.mock import AsyncMock

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from ingest.consumers import upkeep
from ingest.consumers.active import ACTIVE
from ingest.contracts import EndReason
from ingest.models import Application, Lease, Node, OutboxEvent, Session, StatusEvent, Stream
from ingest.rtmp import events
from ingest.services import keys
from ingest.services.keys import NewKey
from tests.ingest.admitting import hold
from tests.ingest.clients import all_ended, go_live, sending, watch_live
from tests.ingest.control import NODE, Connection, flush, listening
from tests.ingest.ticks import until
from tests.production import test_reconnecting as reconnecting
from tests.rtmp_client import Refused, RtmpClient
from tests.server.media import keep_sending, key_frame

pytestmark = pytest.mark.usefixtures("process")


@asynccontextmanager
async def publishing(port: int, key: NewKey) -> AsyncIterator[tuple[RtmpClient, int]]:
    """An encoder and the id of its message stream, which has sent its first picture."""
    async with RtmpClient(port=port, timeout_s=12) as encoder:
        yield encoder, await go_live(encoder, key.secret)


async def session_of(path: str) -> Session:
    """The stream's open publish session."""
    return await Session.objects.aget(kind="publish", name=path, ended_at=None)


async def ended(session: Session, reason: EndReason) -> Session:
    """The session, ended for the reason; and told so once."""
    await until(Session.objects.filter(pk=session.pk).exclude(end_reason="").exists)
    await session.arefresh_from_db()
    assert session.end_reason == reason
    told = StatusEvent.objects.filter(session=session, kind="session.ended")
    await until(told.exists)
    assert [event.code async for event in told] == [reason]
    return session


async def test_an_encoder_that_comes_back_gets_its_stream_and_keeps_its_players(
    key: NewKey, short_silence: timedelta
) -> None:
    """Its old connection is dead, but nobody knows: as OBS after a change of network."""
    async with listening() as port, RtmpClient(port=port) as player:
        await watch_live(player)
        async with publishing(port, key) as (dead, _):
            silent_from = asyncio.get_running_loop().time()
            await player.wait_count(events.VideoReceived, 2)
            former = await session_of("cam1")
            async with publishing(port, key):
                waited = asyncio.get_running_loop().time() - silent_from
                await player.wait_count(events.VideoReceived, 4)
                await dead.wait_closed()
                session = await ended(former, "replaced")
        assert waited > 0.9 * short_silence.total_seconds()
        told = OutboxEvent.objects.filter(kind__in=("publish", "unpublish")).order_by("sequence")
        await until(lambda: [event.kind for event in told.all()] == ["publish", "unpublish"] * 2)
        assert session.end_description.startswith("Taken over from 127.0.0.1 after ")
        assert (session.bytes_in > 0, session.video_frames) == (True, 1)
    takeover = await StatusEvent.objects.aget(kind="publish.takeover")
    assert takeover.session_id != former.pk
    assert (takeover.detail["why"], takeover.detail["session_id"]) == ("silent", str(former.pk))
    assert takeover.detail["address"] == "127.0.0.1"
    assert takeover.detail["silent_s"] >= short_silence.total_seconds()


async def test_a_live_publisher_keeps_its_stream(
    key: NewKey, short_silence: timedelta, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "SILENT_MS", 900)  # A busy machine may hold it up, but not for as long as is waited.
    async with listening() as port, publishing(port, key) as (encoder, stream_id), sending(encoder, stream_id):
        asked = asyncio.get_running_loop().time()
        with pytest.raises(Refused, match=r"NetStream\.Publish\.BadName"):
            async with publishing(port, key):
                pass
        assert asyncio.get_running_loop().time() - asked > short_silence.total_seconds()
        assert not encoder.closed
        assert (await Lease.objects.aget()).silent_since is None


async def test_a_stream_that_takes_the_newer_changes_its_publisher_at_once(
    stream: Stream, key: NewKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On another node too, which has it from the channel layer: its own looks are over."""
    over: set[tuple[str, str]] = set()

    def only_once(name: str, look: Callable[[upkeep.Upkeep], Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        async def once(of: upkeep.Upkeep) -> None:
            if (of.node, name) not in over:
                await look(of)
                over.add((of.node, name))

        return once

    monkeypatch.setattr(upkeep, "SILENT_MS", 60_000)  # The machine may be slow, the encoder is live.
    for name in ("_revocations", "_leases"):
        monkeypatch.setattr(upkeep.Upkeep, name, only_once(name, getattr(upkeep.Upkeep, name)))
    await Stream.objects.aupdate(takeover="replace")
    second = await sync_to_async(keys.create)(stream=stream)
    async with listening() as port, listening("node-b") as other_port, publishing(port, key) as (encoder, stream_id):
        went_on = asyncio.create_task(keep_sending(encoder, stream_id))
        former = await session_of("cam1")
        await until(lambda: over >= {(NODE, "_revocations"), (NODE, "_leases")})
        async with publishing(other_port, second):
            session = await ended(former, "replaced")
            went_on.cancel()
        assert session.end_description == "Taken over from 127.0.0.1."


@pytest.mark.both_forms
async def test_another_node_learns_of_a_takeover_without_the_channel_layer(
    stream: Stream, key: NewKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its look of each second, which is earlier than it finds its lease gone."""
    monkeypatch.setattr(upkeep.Upkeep, "_leases", AsyncMock())
    await Stream.objects.aupdate(takeover="replace")
    async with listening() as port, publishing(port, key) as (encoder, _):
        former = await session_of("cam1")
        await Session.objects.aupdate(channel="")
        async with listening("node-b") as other_port, publishing(other_port, key):
            await ended(former, "replaced")
            await encoder.wait_closed()


@pytest.mark.stores
@pytest.mark.usefixtures("short_silence")
async def test_a_dead_nodes_stream_is_free_when_its_lease_expires(stream: Stream, key: NewKey) -> None:
    """The encoder, which is back at once, is let in then; and what its node could not record is recorded."""
    now = timezone.now()
    expires = now + timedelta(seconds=1)
    await Node.objects.acreate(name="node-b", seen_at=now)
    fields = {"key": key.key, "address": "127.0.0.1", "started_at": now}
    lost = await sync_to_async(hold)(stream, "node-b", expires_at=expires, **fields)
    async with listening() as port:
        async with publishing(port, key):
            assert timezone.now() >= expires
            session = await ended(lost, "node_lost")
        assert session.ended_at is not None
        assert (await Lease.objects.aget()).fencing == 2


@pytest.mark.both_forms
async def test_client_leaving_while_it_waits_for_a_takeover_leaves_no_session(encoder: Connection, key: NewKey) -> None:
    first = await encoder.publish(key.secret)
    second = Connection(address="192.0.2.8")
    await second.connect()
    await second.tell(second.publish_event(key.secret))
    assert await second.app.receive_nothing(0.3)
    await second.disconnect()
    assert second.app.future.done()
    assert str((await Lease.objects.aget()).session_id) == first["session_id"]
    assert await Session.objects.acount() == 1
    flush()
    assert not await Node.objects.exclude(name=NODE).aexists()
    await encoder.disconnect()


@pytest.mark.usefixtures("short_silence")
async def test_a_paused_publisher_is_not_taken_over_as_a_silent_one_is(key: NewKey) -> None:
    """By the same key, long after a silence would have been enough."""
    async with listening() as port, RtmpClient(port=port) as publisher, RtmpClient(port=port, timeout_s=12) as other:
        stream_id = await go_live(publisher, key.secret)
        await until(Lease.objects.filter(silent_since__isnull=False).exists)
        publisher.protocol.send_command(stream_id, "pause", 0, None, True, 0.0)
        await publisher.flush()
        await publisher.wait_for(events.StatusReceived, lambda event: event.code == "NetStream.Pause.Notify")
        await until(Lease.objects.filter(silent_since=None).exists)
        await other.connect("live")
        with pytest.raises(Refused, match="BadName"):
            await other.publish(key.secret)
        assert not publisher.closed
        publisher.protocol.send_command(stream_id, "pause", 0, None, False, 0.0)
        await publisher.send_video(stream_id, 40, key_frame(1))
        await publisher.wait_for(events.StatusReceived, lambda event: event.code == "NetStream.Unpause.Notify")
    told = StatusEvent.objects.filter(kind="onstatus", code__contains="ause.Notify").order_by("sequence")
    await until(told.filter(code="NetStream.Unpause.Notify").exists)
    assert [event.code async for event in told] == ["NetStream.Pause.Notify", "NetStream.Unpause.Notify"]


PUBLISHERS = 8
SECONDS = 2


def make_keys(application: Application) -> list[str]:
    streams = [Stream.objects.create(application=application, name=f"cam{number}") for number in range(PUBLISHERS)]
    return [keys.create(stream=stream).secret for stream in streams]


@pytest.mark.usefixtures("short_silence")
async def test_reconnecting_encoders_leave_no_task_lease_or_session(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconnecting, "LONGEST_S", 1.0)
    secrets = await sync_to_async(make_keys)(application)
    async with listening() as port:
        await until(Node.objects.filter(state="up").exists)
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        before = len(asyncio.all_tasks())
        ends_at = loop.time() + SECONDS
        publishers = [reconnecting.Publisher(port, secret, random.Random(secret), until=ends_at) for secret in secrets]
        running = [asyncio.create_task(publisher.run(over)) for publisher in publishers]
        await until(lambda: all(publisher.stays for publisher in publishers), SECONDS + 30)
        await until(lambda: Session.objects.filter(ended_at=None).count() == len(ACTIVE) == PUBLISHERS)
        over.set()
        await asyncio.gather(*running)
        await until(lambda: not Lease.objects.filter(session__isnull=False).exists())
        await until(all_ended)
        await until(lambda: len(asyncio.all_tasks(loop)) <= before and not ACTIVE)
    # A busy machine may not check all of them in time, which is told as something that passes.
    assert all("Try again" in text for publisher in publishers for text in publisher.refused)
    assert sum(publisher.ends.total() for publisher in publishers) >= PUBLISHERS
