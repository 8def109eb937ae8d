"""Players that take less than they are sent: warned, ended, and bounded in what is held for them."""

import asyncio
import gc
import socket
import ssl
import tracemalloc
from itertools import pairwise

import pytest

from ingest.live import QueueLimits, Subscriber
from ingest.rtmp import events
from ingest.server import RtmpServer, ServerConfig
from tests.pure.live.payloads import session
from tests.server.app import ScriptedApp
from tests.server.clients import At, Camera, Viewer, playing, publishing
from tests.server.conftest import OnStage, Serve
from tests.server.media import AVC_HEADER, key_frame, sound
from tests.server.waiting import set_deadlines

HOUR = 3600.0
KIB = 1024
FRAME_BYTES = 20_000
QUEUE = QueueLimits(size_bytes=1024 * KIB, patience_s=0.5)
CONFIG = {"queue": QUEUE, "window_bytes": 1 << 30}
WRITE_BYTES = ServerConfig(node="").write_high_bytes


def stop_reading(viewer: Viewer) -> None:
    """For good: what its system takes for it is little, too."""
    viewer._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    viewer.pause_reading()


def picture(number: int, *, is_key: bool) -> bytes:
    """One that others refer to."""
    return bytes.fromhex("1701000000" if is_key else "2701000000") + number.to_bytes(4, "big") + b"A" * FRAME_BYTES


async def show(camera: Camera, count: int, *, gop: int = 10, sounds: bool = False) -> None:
    for _ in range(count):
        camera.time += 40
        camera.number += 1
        frame = picture(camera.number, is_key=camera.number % gop == 0)
        await camera.client.send_video(camera.stream_id, camera.time, frame)
        if sounds:
            await camera.client.send_audio(camera.stream_id, camera.time, sound(camera.number))
        await asyncio.sleep(0)  # So that the server has a turn of its loop for each.


async def taken(server: RtmpServer, camera: Camera) -> None:
    """What was shown so far: else it may come to the server in one burst that is more than a queue."""
    meter = session(server.registry.streams["live/cam1"]).meter
    while meter.video_line.frames < camera.number:  # noqa: ASYNC110 - a turn of its loop each.
        await asyncio.sleep(0)


def subscribers(server: RtmpServer) -> tuple[Subscriber, ...]:
    return server.registry.streams["live/cam1"].subscribers


async def check_a_stuck_player_is_closed(app: ScriptedApp, at: At, *, tls: ssl.SSLContext | None = None) -> None:
    """Within some seconds; its publisher goes on. The server's `write_s` should be short."""
    async with publishing(at, tls=tls) as (publisher, stream_id), playing(at, tls=tls) as stuck:
        stuck.pause_reading()
        await publisher.send_video(stream_id, 0, AVC_HEADER)
        async with asyncio.timeout(10):
            while not app.connections[1].of("rtmp.stop"):
                await publisher.send_video(stream_id, 0, key_frame(0, 60_000))
        assert app.connections[1].of("rtmp.stop")[0]["reason"] == "too_slow"
        assert not publisher.closed


async def test_slow_player_is_warned_and_then_ended_as_too_slow(app: ScriptedApp, on_stage: OnStage) -> None:
    stage = await on_stage(config=CONFIG, write_s=HOUR, linger_s=HOUR)
    camera = await stage.camera("cam1")
    viewer, other = await stage.viewer("cam1"), await stage.viewer("cam1")
    viewer.pause_reading()
    slow = subscribers(stage.server)[0]
    async with asyncio.timeout(20):
        while len(subscribers(stage.server)) == 2:
            await show(camera, 5)
            await asyncio.sleep(0.005)
    viewer.resume_reading()
    ended = await viewer.status("NetStream.Play.Failed")
    assert ended.level == "error"
    warned = await viewer.status("NetStream.Play.InsufficientBW")
    assert warned.level == "warning"
    assert viewer.codes.index(warned.code) < viewer.codes.index(ended.code)
    stopped = await app.event("rtmp.stop", connection=1)
    assert (stopped["reason"], stopped["totals"]["dropped_frames"] > 10) == ("too_slow", True)
    assert slow.sheds > 2
    await show(camera, 20)
    await other.picture(picture(camera.number - camera.number % 10, is_key=True))
    assert "NetStream.Play.Failed" not in other.codes


@pytest.mark.parametrize("limit", [{"size_bytes": 1024 * KIB}, {"messages": 50}], ids=str)
async def test_player_that_catches_up_resumes_at_a_keyframe_and_keeps_its_audio(
    app: ScriptedApp, on_stage: OnStage, limit: dict[str, int]
) -> None:
    stage = await on_stage(config={**CONFIG, "queue": QueueLimits(**limit)}, write_s=HOUR)
    camera, viewer, quick = await stage.camera("cam1"), await stage.viewer("cam1"), await stage.viewer("cam1")
    viewer.pause_reading()
    slow = subscribers(stage.server)[0]
    async with asyncio.timeout(20):
        while slow.sheds < 3:
            await show(camera, 1, sounds=True)
            await quick.hear(camera.number)
    last = camera.number
    viewer.resume_reading()
    await viewer.hear(last)
    for _ in range(20):
        await show(camera, 1, sounds=True)
        await quick.hear(camera.number)
    await viewer.picture(picture(camera.number - camera.number % 10, is_key=True))
    await viewer.hear(camera.number)
    await quick.wait_until(lambda: len(quick.video) == 1 + camera.number - 9)  # From the first keyframe on.
    assert viewer.codes.count("NetStream.Play.InsufficientBW") <= 1
    assert slow.dropped_video > 0
    await viewer.close()
    assert (await app.event("rtmp.stop", connection=1))["totals"]["dropped_frames"] > 0
    numbers = [int.from_bytes(payload[5:9], "big") for payload in viewer.video if payload != AVC_HEADER]
    for before, after in pairwise(numbers):
        assert after == before + 1 or after % 10 == 0, "after a gap, a keyframe"


@pytest.mark.parametrize("count", [1, 100])
async def test_memory_held_for_players_that_never_read_is_bounded(on_stage: OnStage, count: int) -> None:
    queue = QueueLimits(size_bytes=1024 * KIB)
    stage = await on_stage(config={**CONFIG, "queue": queue}, write_s=HOUR)
    camera = await stage.camera("cam1")
    for _ in range(count):
        stop_reading(await stage.viewer("cam1"))
    players = subscribers(stage.server)
    assert len(players) == count
    await show(camera, 10)
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        queued = 0
        async with asyncio.timeout(60):
            while min(player.sheds for player in players) < 2:
                await show(camera, 3)
                await taken(stage.server, camera)
                queued = max(queued, sum(player.pending_bytes for player in players))
                assert max(player.pending_bytes for player in players) <= queue.size_bytes + FRAME_BYTES
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    waiting = [found.transport.get_write_buffer_size() for found in stage.server.connections]
    assert WRITE_BYTES < max(waiting) <= 2 * WRITE_BYTES, "one write goes over the mark"
    # Each message is held twice, as payload and as chunks, but once for all players; and the group of pictures.
    shared = 2 * 2 * (queue.size_bytes + 10 * FRAME_BYTES)
    assert held <= shared + count * 2.5 * WRITE_BYTES
    assert queued >= count * 200 * KIB


async def test_a_peer_that_takes_nothing_is_closed(app: ScriptedApp, serve: Serve, quiet: None) -> None:
    await check_a_stuck_player_is_closed(app, await serve(write_s=0.3, config={"write_high_bytes": 64 * 1024}))


@pytest.mark.parametrize("flush_ms", [0, 20])
async def test_messages_of_one_read_are_relayed_in_order_at_any_flush_interval(serve: Serve, flush_ms: int) -> None:
    """What came in one read goes out in order whatever the flush interval."""
    server = await serve(config={"flush_ms": flush_ms})
    async with publishing(server) as (publisher, stream_id), playing(server) as player:
        publisher.protocol.send_video(stream_id, 0, AVC_HEADER)
        for number in range(100):
            publisher.protocol.send_video(stream_id, number, key_frame(number))
        await publisher.flush()
        await player.wait_count(events.VideoReceived, 101)
        assert [event.payload for event in player.of(events.VideoReceived)][1:] == [key_frame(n) for n in range(100)]


async def test_player_whose_ping_waits_behind_unread_data_is_ended_as_too_slow(app: ScriptedApp, serve: Serve) -> None:
    server = await serve(ping_after_s=0.1, ping_answer_s=HOUR, write_s=HOUR)
    async with publishing(server) as (publisher, stream_id), playing(server) as stuck:
        stuck.pause_reading()
        player = server.registry.streams["live/cam1"].subscribers[0]
        await publisher.send_video(stream_id, 0, AVC_HEADER)
        async with asyncio.timeout(10):
            while not (player.held and player.held(False)):
                await publisher.send_video(stream_id, 0, key_frame(0, 60_000))
        set_deadlines(server, ping_answer_s=0.2)
        stopped = await app.event("rtmp.stop", connection=1)
        assert not publisher.closed
    assert (stopped["reason"], "of a ping" in stopped["description"]) == ("too_slow", True)


KBPS = 540
SHOWN_S = 4.0


async def test_stuck_player_is_reported_slow_within_seconds_at_a_low_bitrate(
    app: ScriptedApp, on_stage: OnStage
) -> None:
    """The connection and the kernels hold many seconds of it before its queue does."""
    stage = await on_stage()
    camera, _other = await stage.camera("cam1"), await stage.viewer("cam1")
    loop, frame = asyncio.get_running_loop(), key_frame(1, KBPS * 125 // 25)
    stuck = await stage.viewer("cam1")
    stuck.pause_reading()
    began = loop.time()
    for number in range(round(2 * SHOWN_S * 25)):
        await camera.client.send_video(camera.stream_id, 40 * number, frame)
        shown = [stream["slow_players"] for stream in app.ticks[-1]["streams"]] if app.ticks else []
        if 1 in shown:
            break
        await asyncio.sleep(max(0.0, began + 0.04 * (number + 1) - loop.time()))
    assert shown == [1], "the other is not slow"
    assert loop.time() - began < SHOWN_S + 1.0
