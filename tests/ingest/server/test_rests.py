"""When publishers are read: at once where somebody plays them, in pieces where nobody does."""

import asyncio
from typing import Any

import pytest

from ingest.rtmp import events
from ingest.server import RtmpServer
from ingest.server.rests import Rests
from tests.ingest.live.payloads import session
from tests.ingest.server.app import ScriptedApplication
from tests.ingest.server.conftest import Serve
from tests.ingest.server.media import AVC_HEADER, inter_frame, key_frame
from tests.rtmp_client import RtmpClient

READ_MS = 400
REST_S = READ_MS / 1000


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
        assert await frames_read(server, 2) - begun > REST_S - 0.01
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
        await player.wait_count(events.VideoReceived, 3)  # The rest that was under way is over.
        (connection,) = (each for each in server.connections if each.peer == app.connections[0].scope["client"])
        resting: list[object] = []
        begin = server.rests.begin

        def count(one: Any) -> None:
            resting.append(one)
            begin(one)

        monkeypatch.setattr(server.rests, "begin", count)
        for number in range(2, 12):
            await publisher.send_video(stream_id, 40 * number, inter_frame(number))
            await player.wait_count(events.VideoReceived, 2 + number)
        assert connection not in resting


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


class Rester:
    """A connection that rests; `fault` is what reading on meets."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.fault = fault
        self.errors: list[Exception] = []
        self.read = asyncio.Event()

    def read_on(self) -> None:
        if self.fault:
            raise self.fault
        self.read.set()

    def broken(self, error: Exception) -> None:
        self.errors.append(error)


async def test_one_connections_fault_is_its_own() -> None:
    fault = RuntimeError("broken on purpose")
    rests = Rests(asyncio.get_running_loop(), read_ms=20, read_buffer_bytes=4096)
    broken, other, later = Rester(fault), Rester(), Rester()
    rests.begin(broken)
    rests.begin(other)
    await asyncio.wait_for(other.read.wait(), 20)
    rests.begin(later)
    await asyncio.wait_for(later.read.wait(), 20)
    assert (broken.errors, other.errors) == ([fault], [])
    rests.close()
