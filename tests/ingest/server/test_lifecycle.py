"""The node's ticks, an ordered stop, drain, and players that are too slow."""

import asyncio
import logging
import time
from itertools import pairwise
from pathlib import Path

import pytest

from ingest.contracts import Sample
from ingest.live import LiveSettings, QueueLimits
from ingest.rtmp import events
from ingest.server import RtmpServer, ServerConfig
from tests.ingest.faults import HangingDisk
from tests.ingest.server.app import Instance, Message, ScriptedApplication
from tests.ingest.server.conftest import Serve
from tests.ingest.server.media import AAC_HEADER, AVC_HEADER, inter_frame, keep_sending, key_frame, sound
from tests.ingest.server.stuck import check_a_stuck_player_is_closed
from tests.rtmp_client import RtmpClient


def ticks(app: ScriptedApplication) -> list[Message]:
    return app.node.of("node.tick")


async def test_the_node_starts_ticks_and_stops(app: ScriptedApplication) -> None:
    server = RtmpServer(app, ServerConfig(node="node-1", rtmp=("127.0.0.1", 0)))
    await server.start()
    await app.wait_until(lambda: bool(app.instances) and len(ticks(app)) >= 2)
    await server.stop()
    scope = app.node.scope
    assert (scope["node"], scope["addresses"]) == ("node-1", server.addresses)
    kinds = app.node.kinds
    assert (kinds[0], kinds[-3:]) == ("node.started", ["node.draining", "node.tick", "node.stopped"])
    with pytest.raises(OSError, match=r"refused|Connect call failed"):
        await RtmpClient(port=server.addresses[0][1]).open()


async def test_a_tick_tells_of_caches_that_had_no_room(app: ScriptedApplication, serve: Serve) -> None:
    server = await serve(config={"live": LiveSettings(caches_bytes=100)})
    async with RtmpClient(port=server.addresses[0][1]) as publisher:
        await publisher.connect("live")
        stream_id = await publisher.publish("cam1")
        for number in range(3):
            await publisher.send_video(stream_id, number * 40, key_frame(number))
        await app.wait_until(lambda: bool(ticks(app)) and ticks(app)[-1]["figures"]["caches_dropped_in_all"] == 3)
    figures = ticks(app)[-1]["figures"]
    assert (figures["caches_bytes"], figures["caches_dropped"]) == (0, 3)


async def test_a_tick_tells_of_streams_and_players(app: ScriptedApplication, serve: Serve) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    port = (await serve()).addresses[0][1]
    async with RtmpClient(port=port) as publisher, RtmpClient(port=port) as player:
        await publisher.connect("live", flashVer="test/1.0")
        stream_id = await publisher.publish("cam1")
        await player.connect("live")
        await player.play("cam1")
        await publisher.send_video(stream_id, 0, AVC_HEADER)
        for number in range(10):
            await publisher.send_video(stream_id, number * 40, key_frame(number))
        await player.wait_count(events.VideoReceived, 11)
        await app.wait_until(lambda: any(sample.video_frames for tick in ticks(app) for sample in tick["samples"]))
        await app.wait_until(lambda: any(tick["figures"]["players"] for tick in ticks(app)))
        tick = next(tick for tick in ticks(app) if tick["figures"]["players"])
    await app.wait_until(lambda: ticks(app)[-1]["figures"]["connections"] == 0)
    (stream,) = tick["streams"]
    assert (stream["app"], stream["name"], stream["encoder"], stream["address"]) == (
        "live",
        "cam1",
        "test/1.0",
        "127.0.0.1",
    )
    (seen,) = tick["players"]
    assert (seen["session_id"], seen["path"]) == ("play-2", "live/cam1")
    figures = tick["figures"]
    assert (figures["node"], figures["publishers"], figures["connections"]) == ("node-1", 1, 2)
    assert 0 <= figures["loop_delay_ms"] < (loop.time() - began) * 1000
    assert figures["issues"] == []
    assert any(tick["figures"]["caches_bytes"] for tick in ticks(app))
    samples = [sample for tick in ticks(app) for sample in tick["samples"]]
    assert sum(sample.video_frames for sample in samples) == 10
    assert sum(sample.keyframes for sample in samples) == 10
    assert samples[0].rtt_ms is not None
    (ended,) = app.connections[0].of("rtmp.unpublish")
    assert ended["totals"]["video_frames"] == 10


async def test_a_disk_that_hangs_holds_up_nothing(
    app: ScriptedApplication, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = HangingDisk(monkeypatch)
    try:
        server = await serve(config={"disk": tmp_path})
        port = server.addresses[0][1]
        async with RtmpClient(port=port) as publisher, RtmpClient(port=port) as player:
            await publisher.connect("live")
            stream_id = await publisher.publish("cam1")
            await player.connect("live")
            await player.play("cam1")
            await app.wait_until(lambda: len(ticks(app)) >= 2)
            await publisher.send_video(stream_id, 0, AVC_HEADER)
            await publisher.send_video(stream_id, 0, key_frame(0))
            await player.wait_count(events.VideoReceived, 2)
            assert disk.waiting == 1
            figures = ticks(app)[-1]["figures"]
            assert figures["disk_free_percent"] is None
            assert figures["disk_hangs_s"] > 0
            disk.let_go()
            await app.wait_until(lambda: ticks(app)[-1]["figures"]["disk_free_percent"] is not None)
            assert ticks(app)[-1]["figures"]["disk_hangs_s"] == 0
            disk.hang()
            await app.wait_until(lambda: ticks(app)[-1]["figures"]["disk_hangs_s"] > 0)
        await server.stop(grace_s=2)
    finally:
        disk.let_go()


async def test_a_node_application_that_fails_is_started_anew(
    app: ScriptedApplication, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(_instance: Instance, _event: Message) -> Message:
        del app.on["node.tick"]
        raise RuntimeError("broken on purpose")

    app.on["node.tick"] = fail
    await serve()

    def nodes() -> list[Instance]:
        return [instance for instance in app.instances if instance.scope["type"] == "rtmp.node"]

    await app.wait_until(lambda: len(nodes()) == 2 and bool(nodes()[1].of("node.tick")))
    assert nodes()[1].kinds[0] == "node.started"
    assert [record.levelname for record in caplog.records if record.exc_info] == ["ERROR"]


async def test_samples_that_a_busy_application_could_not_take_come_later(
    app: ScriptedApplication, serve: Serve
) -> None:
    go = asyncio.Event()

    async def stall(_instance: Instance, _event: Message) -> None:
        await go.wait()

    app.on["node.tick"] = stall
    server = await serve(config={"inbox_ticks": 1})
    async with RtmpClient(port=server.addresses[0][1]) as client:
        await client.connect("live")
        stream_id = await client.publish("cam1")
        async with asyncio.timeout(10):
            sent = 0
            while len(server.node.unsent) < 2:
                await client.send_video(stream_id, sent * 20, key_frame(sent))
                sent += 1
                await asyncio.sleep(0.02)
        await client.delete_stream(stream_id)
        await app.event("rtmp.unpublish")
    go.set()

    def samples() -> list[Sample]:
        return [sample for tick in ticks(app) for sample in tick["samples"]]

    await app.wait_until(lambda: sum(sample.video_frames for sample in samples()) >= sent)
    assert sum(sample.video_frames for sample in samples()) == sent
    assert [sample.sequence for sample in samples()] == list(range(1, len(samples()) + 1))
    assert not server.node.unsent


async def test_a_machines_clock_that_leaps_leaves_no_gap_in_what_is_measured(
    app: ScriptedApplication, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    def samples() -> list[Sample]:
        return [sample for tick in ticks(app) for sample in tick["samples"]]

    real = time.time
    server = await serve()
    async with RtmpClient(port=server.addresses[0][1]) as publisher:
        await publisher.connect("live")
        sending = asyncio.create_task(keep_sending(publisher, await publisher.publish("cam1")))
        for leap_s in (0.0, 3600.0, 0.0):
            monkeypatch.setattr(time, "time", lambda leap_s=leap_s: real() + leap_s)
            known = len(samples())
            await app.wait_until(lambda known=known: len(samples()) >= known + 2)  # type: ignore[misc]
        sending.cancel()
    measured = samples()
    for before, after in pairwise(measured):
        assert (after.at_us - before.at_us) / 1e6 == pytest.approx(after.elapsed_ms / 1000, abs=1)
    assert measured[-1].at_us / 1e6 == pytest.approx(real(), abs=60)
    assert all(abs(tick["figures"]["at"] - real()) < 60 for tick in ticks(app))


async def test_a_stop_ends_all_sessions_in_order(app: ScriptedApplication, serve: Serve) -> None:
    server = await serve()
    port = server.addresses[0][1]
    async with RtmpClient(port=port) as publisher, RtmpClient(port=port) as player, RtmpClient(port=port):
        await publisher.connect("live")
        stream_id = await publisher.publish("cam1")
        await publisher.send_video(stream_id, 0, AVC_HEADER)
        await player.connect("live")
        await player.play("cam1")
        await server.stop(grace_s=2)
        await publisher.wait_closed()
        await player.wait_closed()
        assert publisher.of(events.StatusReceived)[-1].code == "NetConnection.Connect.AppShutdown"
        assert player.of(events.StatusReceived)[-1].code == "NetStream.Play.UnpublishNotify"
    assert [event["reason"] for event in app.connections[0].of("rtmp.unpublish")] == ["node_shutdown"]
    assert [event["reason"] for event in app.connections[1].of("rtmp.stop")] == ["node_shutdown"]
    assert [c.events[-1]["type"] for c in app.connections] == ["rtmp.disconnect"] * 3
    assert [c.events[-1]["reason"] for c in app.connections] == ["node_shutdown"] * 3
    assert app.node.kinds[-1] == "node.stopped"
    assert not server.connections


async def test_a_stop_does_not_wait_for_a_peer_that_reads_nothing(app: ScriptedApplication, serve: Serve) -> None:
    server = await serve()
    port = server.addresses[0][1]
    async with RtmpClient(port=port) as publisher, RtmpClient(port=port) as player:
        await publisher.connect("live")
        stream_id = await publisher.publish("cam1")
        await player.connect("live")
        await player.play("cam1")
        player.pause_reading()
        await publisher.send_video(stream_id, 0, AVC_HEADER)
        for number in range(200):
            await publisher.send_video(stream_id, number * 40, key_frame(number, 60_000))
        await asyncio.wait_for(server.stop(grace_s=0.3), 20)
    assert [event["reason"] for event in app.connections[1].of("rtmp.stop")] == ["node_shutdown"]


async def test_draining_takes_no_more_connections(app: ScriptedApplication, serve: Serve) -> None:
    server = await serve()
    port = server.addresses[0][1]
    async with RtmpClient(port=port) as publisher:
        await publisher.connect("live")
        stream_id = await publisher.publish("cam1")
        await app.node.send({"type": "node.drain", "grace_s": 60.0})
        with pytest.raises(OSError, match=r"refused|Connect call failed"):
            await RtmpClient(port=port).open()
        await publisher.send_video(stream_id, 0, AVC_HEADER)
        await app.event("rtmp.metadata")
    assert len(app.node.of("node.draining")) == 1


async def test_a_slow_player_drops_to_a_keyframe_and_keeps_its_audio(app: ScriptedApplication, serve: Serve) -> None:
    server = await serve(
        config={"queue": QueueLimits(messages=50), "write_high_bytes": 64 * 1024, "write_low_bytes": 1024}
    )
    port = server.addresses[0][1]
    async with RtmpClient(port=port) as publisher, RtmpClient(port=port) as slow, RtmpClient(port=port) as quick:
        await publisher.connect("live")
        stream_id = await publisher.publish("cam1")
        for player in (slow, quick):
            await player.connect("live")
            await player.play("cam1")
        slow.pause_reading()
        await publisher.send_video(stream_id, 0, AVC_HEADER)
        await publisher.send_audio(stream_id, 0, AAC_HEADER)

        async def publish(numbers: range) -> None:
            for number in numbers:
                frame = key_frame(number, 20_000) if number % 10 == 0 else inter_frame(number, 20_000)
                await publisher.send_video(stream_id, number * 40, frame)
                await publisher.send_audio(stream_id, number * 40, sound(number))
                await quick.wait_count(events.AudioReceived, number + 2)

        await publish(range(600))
        slow.resume_reading()
        await slow.wait_until(lambda: any(event.payload == sound(599) for event in slow.of(events.AudioReceived)))
        await publish(range(600, 650))
        await slow.wait_until(lambda: any(event.payload == sound(649) for event in slow.of(events.AudioReceived)))
        assert len(quick.of(events.VideoReceived)) == 651
        await slow.close()
        stopped = await app.event("rtmp.stop", connection=1)
        totals = stopped["totals"]
        assert totals["dropped_frames"] > 0
        video = slow.of(events.VideoReceived)[1:]
        # Whatever is missing, video goes on at a keyframe.
        numbers = [event.timestamp // 40 for event in video]
        jumps = [after for before, after in pairwise(numbers) if after != before + 1]
        assert numbers[-1] == 649
        assert jumps
        assert all(number % 10 == 0 for number in jumps)


async def test_a_peer_that_takes_nothing_is_closed(
    app: ScriptedApplication, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    server = await serve(write_s=0.3, config={"write_high_bytes": 64 * 1024})
    await check_a_stuck_player_is_closed(app, server.addresses[0][1])
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("flush_ms", [0, 20])
async def test_messages_are_gathered_into_one_write(app: ScriptedApplication, serve: Serve, flush_ms: int) -> None:
    """What came in one read goes out in order whatever the flush interval."""
    server = await serve(config={"flush_ms": flush_ms})
    port = server.addresses[0][1]
    async with RtmpClient(port=port) as publisher, RtmpClient(port=port) as player:
        await publisher.connect("live")
        stream_id = await publisher.publish("cam1")
        await player.connect("live")
        await player.play("cam1")
        publisher.protocol.send_video(stream_id, 0, AVC_HEADER)
        for number in range(100):
            publisher.protocol.send_video(stream_id, number, key_frame(number))
        await publisher.flush()
        await player.wait_count(events.VideoReceived, 101)
        assert [event.payload for event in player.of(events.VideoReceived)][1:] == [key_frame(n) for n in range(100)]
