"""Players that have paused need neither read nor answer: for an hour, and then as any other."""

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from ingest.rtmp import events
from ingest.server import RtmpServer
from ingest.server.playing import Player
from tests.ingest.server.app import ScriptedApplication
from tests.ingest.server.conftest import Serve
from tests.ingest.server.deadlines import set_deadlines
from tests.ingest.server.media import key_frame
from tests.ingest.server.plays.clients import Camera, Stage, Viewer
from tests.ingest.server.recorded.files import made, record, write
from tests.ingest.server.recorded.viewer import Viewer as Watcher
from tests.ingest.server.waiting import within

HOUR = 3600.0
NOT_YET = {"ping_after_s": 0.1, "ping_answer_s": HOUR, "write_s": HOUR}
AT_ONCE = {"ping_answer_s": 0.2, "write_s": 0.2}


async def becomes(condition: Callable[[], bool]) -> None:
    async def ask() -> bool:
        return condition()

    assert await within(5, ask, True)


def player(server: RtmpServer) -> Player:
    (found,) = (session for session in server.sessions.values() if isinstance(session, Player))
    return found


async def pauses_unread(server: RtmpServer, camera: Camera, viewer: Viewer) -> None:
    """Its client reads nothing any more, and more waits than the kernel takes; then it pauses."""
    viewer.client.pause_reading()
    outlet = player(server).connection.outlet
    async with asyncio.timeout(10):
        while not outlet.is_full:
            await camera.client.send_video(camera.stream_id, camera.time, key_frame(0, 60_000))
    await viewer.ask("pause", True, 0.0)
    await becomes(lambda: player(server).paused)
    assert outlet.is_full


async def test_a_live_stream(app: ScriptedApplication, serve: Serve) -> None:
    server = await serve(**NOT_YET)
    async with Stage(server.addresses[0][1]) as stage:
        camera, viewer = await stage.camera("cam1"), await stage.viewer("cam1")
        await pauses_unread(server, camera, viewer)
        set_deadlines(server, **AT_ONCE)
        await asyncio.sleep(1)
        set_deadlines(server, **NOT_YET)
        assert not app.connections[1].of("rtmp.stop")
        viewer.client.resume_reading()
        await viewer.ask("pause", False, 0.0)
        await viewer.status("NetStream.Unpause.Notify")
        await camera.send(key=True)
        await viewer.picture(camera.key_frame)


async def test_a_recording(app: ScriptedApplication, serve: Serve, tmp_path: Path) -> None:
    """It goes on where it was, with what its client had not taken."""
    clip = made(24, key_bytes=1_000_000)
    record(app, write(tmp_path / "clip.flv", clip))
    server = await serve(**NOT_YET)
    async with Watcher(port=server.addresses[0][1]) as viewer:
        await viewer.watch()
        await viewer.wait_for(events.VideoReceived)
        viewer.pause_reading()
        outlet = player(server).connection.outlet
        await becomes(lambda: outlet.is_full)
        await viewer.command("pause", True, 0.0)
        await becomes(lambda: player(server).paused)
        set_deadlines(server, **AT_ONCE)
        await asyncio.sleep(1)
        set_deadlines(server, **NOT_YET)
        assert not app.connections[0].of("rtmp.stop")
        viewer.resume_reading()
        await viewer.command("pause", False, 0.0)
        await viewer.until_over(timeout_s=8)
        assert sorted(viewer.media()) == sorted(clip)  # Sounds overtake a long picture.


async def test_not_for_ever(app: ScriptedApplication, serve: Serve) -> None:
    server = await serve(**NOT_YET, pause_s=HOUR)
    async with Stage(server.addresses[0][1]) as stage:
        camera, viewer = await stage.camera("cam1"), await stage.viewer("cam1")
        await pauses_unread(server, camera, viewer)
        set_deadlines(server, **AT_ONCE, pause_s=0.1)
        assert (await app.event("rtmp.stop", connection=1))["reason"] in ("idle_timeout", "too_slow")


async def test_not_beside_a_stream_that_plays(app: ScriptedApplication, serve: Serve) -> None:
    """What its client does not read is live."""
    server = await serve(**NOT_YET)
    async with Stage(server.addresses[0][1]) as stage:
        camera, viewer = await stage.camera("cam1"), await stage.viewer("cam1")
        await viewer.ask("pause", True, 0.0)
        await viewer.status("NetStream.Pause.Notify")
        await viewer.client.play("cam1")
        viewer.client.pause_reading()
        set_deadlines(server, ping_answer_s=0.2)
        await app.event("rtmp.stop", connection=1)
        assert not camera.client.closed


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this system has no TCP_USER_TIMEOUT")
async def test_the_kernel_has_the_patience_too(
    app: ScriptedApplication, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux ends a connection whose window stays closed for TCP_USER_TIMEOUT, at the probe after that."""
    monkeypatch.setattr("ingest.server.sockets.KEEPALIVE_OPTIONS", (("TCP_USER_TIMEOUT", 2000),))
    server = await serve(**NOT_YET)
    async with Stage(server.addresses[0][1]) as stage:
        camera, viewer = await stage.camera("cam1"), await stage.viewer("cam1")
        await pauses_unread(server, camera, viewer)
        found = player(server).connection.transport.get_extra_info("socket")
        assert found.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 0
        await asyncio.sleep(4)
        assert not app.connections[1].of("rtmp.stop")
