"""When publishers are read: at once where somebody plays them, in pieces where nobody does."""

import asyncio
import socket
from typing import Any, cast

import pytest

from ingest.rtmp import events
from ingest.server import RtmpServer
from ingest.server.read_batching import PORTION, ReadBatching
from tests.ingest.live.payloads import session
from tests.ingest.server.app import ScriptedApplication
from tests.ingest.server.conftest import Serve
from tests.ingest.server.media import AVC_HEADER, inter_frame, key_frame
from tests.rtmp_client import RtmpClient

READ_MS = 400
READ_S = READ_MS / 1000


async def frames_read(server: RtmpServer, wanted: int) -> float:
    """Waits until the server has counted so many frames; gives the loop's time."""
    meter = session(server.registry.streams["live/cam1"]).meter
    async with asyncio.timeout(5):
        while meter.video_line.frames < wanted:  # noqa: ASYNC110 - nothing announces it.
            await asyncio.sleep(0.001)
    return asyncio.get_running_loop().time()


async def test_what_nobody_plays_gathers_before_it_is_read(app: ScriptedApplication, serve: Serve) -> None:
    server = await serve(config={"read_ms": READ_MS})
    async with RtmpClient(port=server.addresses[0][1]) as publisher:
        await publisher.connect("live")
        stream_id = await publisher.publish("cam1")
        begun = asyncio.get_running_loop().time()
        await publisher.send_video(stream_id, 0, key_frame(0))
        await frames_read(server, 1)
        for number in range(1, 4):
            await publisher.send_video(stream_id, 40 * number, inter_frame(number))
        assert await frames_read(server, 2) - begun > READ_S - 0.01
        await frames_read(server, 4)


async def test_large_reads_follow_one_another_at_once(app: ScriptedApplication, serve: Serve) -> None:
    server = await serve(config={"read_ms": 60_000, "read_buffer_bytes": 4096})
    async with RtmpClient(port=server.addresses[0][1]) as publisher:
        await publisher.connect("live")
        stream_id = await publisher.publish("cam1")
        await publisher.send_video(stream_id, 0, key_frame(0, 200_000))
        await frames_read(server, 1)


async def test_what_is_played_is_read_at_once(
    app: ScriptedApplication, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await serve(config={"read_ms": READ_MS})
    port = server.addresses[0][1]
    async with RtmpClient(port=port) as publisher, RtmpClient(port=port) as player:
        await publisher.connect("live")
        stream_id = await publisher.publish("cam1")
        await publisher.send_video(stream_id, 0, AVC_HEADER)
        await publisher.send_video(stream_id, 0, key_frame(0))
        await frames_read(server, 1)
        await player.connect("live")
        await player.play("cam1")
        await publisher.send_video(stream_id, 40, inter_frame(1))
        await player.wait_count(events.VideoReceived, 3)
        (connection,) = (each for each in server.connections if each.peer == app.connections[0].scope["client"])
        joined: list[object] = []
        join = server.read_batching.join

        def count(one: Any) -> None:
            joined.append(one)
            join(one)

        monkeypatch.setattr(server.read_batching, "join", count)
        for number in range(2, 12):
            await publisher.send_video(stream_id, 40 * number, inter_frame(number))
            await player.wait_count(events.VideoReceived, 2 + number)
        assert connection not in joined


async def test_a_resting_publisher_can_be_ended(app: ScriptedApplication, serve: Serve) -> None:
    server = await serve(config={"read_ms": 60_000})
    async with RtmpClient(port=server.addresses[0][1]) as publisher:
        await publisher.connect("live")
        stream_id = await publisher.publish("cam1")
        await publisher.send_video(stream_id, 0, key_frame(0))
        await frames_read(server, 1)
        await app.instances[-1].send({"type": "rtmp.close", "reason": "kicked"})
        await publisher.wait_closed()
        await app.event("rtmp.unpublish")


class Sender:
    """A connection in a batch, which something has come for; `fault` is what handling it meets."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.fault = fault
        self.errors: list[Exception] = []
        self.read = asyncio.Event()
        self.far, self.near = socket.socketpair()
        self.near.setblocking(False)
        self.read_fd: int | None = self.near.fileno()
        self.transport: asyncio.Transport = Transport()
        self.far.send(b"media")

    def received(self, nbytes: int, now: float) -> None:
        if self.fault:
            raise self.fault
        self.read.set()

    def read_once(self) -> None:
        pytest.fail("its socket can be read")

    def read_on(self) -> None:
        pytest.fail("nothing ends its place in the batch")

    def broken(self, error: Exception) -> None:
        self.errors.append(error)


class Transport(asyncio.Transport):
    def is_closing(self) -> bool:
        return False


async def test_one_connections_fault_is_its_own() -> None:
    fault = RuntimeError("broken on purpose")
    batching = ReadBatching(asyncio.get_running_loop(), 20, memoryview(bytearray(4096)))
    senders = [Sender(fault), *(Sender() for _ in range(2 * PORTION))]
    for sender in senders:
        batching.join(cast("Any", sender))
    for sender in senders[1:]:
        await asyncio.wait_for(sender.read.wait(), 20)
    later = Sender()
    batching.join(cast("Any", later))
    await asyncio.wait_for(later.read.wait(), 20)
    assert senders[0].errors == [fault]
    assert not any(sender.errors for sender in senders[1:])
    batching.close()
    for sender in (*senders, later):
        sender.far.close()
        sender.near.close()
