"""The node: its ticks, what it counts, and an ordered stop."""

import asyncio
import time
from itertools import pairwise
from pathlib import Path

import pytest

from ingest.live import LiveSettings
from ingest.rtmp import events
from ingest.server import RtmpServer, ServerConfig
from ingest.server.process import BOUNDS_S, LoopDelay
from tests.ingest.faults import HangingDisk
from tests.rtmp_client import RtmpClient
from tests.server.app import Instance, Message, ScriptedApp
from tests.server.clients import Stage, connected, playing, publishing
from tests.server.conftest import Serve
from tests.server.media import AVC_HEADER, keep_sending, key_frame


async def test_the_node_starts_ticks_and_stops(app: ScriptedApp) -> None:
    server = RtmpServer(app, ServerConfig(node="node-1", rtmp=("127.0.0.1", 0)))
    await server.start()
    await app.wait_until(lambda: len(app.ticks) >= 2)
    await server.stop()
    scope = app.node.scope
    assert (scope["node"], scope["addresses"]) == ("node-1", server.addresses)
    kinds = app.node.kinds
    assert (kinds[0], kinds[-3:]) == ("node.started", ["node.draining", "node.tick", "node.stopped"])
    with pytest.raises(OSError, match=r"refused|Connect call failed"):
        await RtmpClient(port=server.addresses[0][1]).open()


async def test_a_tick_tells_of_caches_that_had_no_room(app: ScriptedApp, serve: Serve) -> None:
    server = await serve(config={"live": LiveSettings(caches_bytes=100)})
    async with publishing(server) as (publisher, stream_id):
        for number in range(3):
            await publisher.send_video(stream_id, number * 40, key_frame(number))
        await app.wait_until(lambda: bool(app.ticks) and app.figures[-1]["caches_dropped_in_all"] == 3)
    figures = app.figures[-1]
    assert (figures["caches_bytes"], figures["caches_dropped"]) == (0, 3)


async def test_a_tick_tells_of_streams_and_players(app: ScriptedApp, server: RtmpServer) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with publishing(server, flashVer="test/1.0") as (publisher, stream_id), playing(server) as player:
        await publisher.send_video(stream_id, 0, AVC_HEADER)
        for number in range(10):
            await publisher.send_video(stream_id, number * 40, key_frame(number))
        await player.wait_count(events.VideoReceived, 11)
        await app.wait_until(lambda: any(sample.video_frames for sample in app.samples))
        await app.wait_until(lambda: any(tick["figures"]["players"] for tick in app.ticks))
        tick = next(tick for tick in app.ticks if tick["figures"]["players"])
    await app.wait_until(lambda: app.figures[-1]["connections"] == 0)
    (stream,) = tick["streams"]
    told = {"app": "live", "name": "cam1", "encoder": "test/1.0", "address": "127.0.0.1"}
    assert {key: stream[key] for key in told} == told
    (seen,) = tick["players"]
    assert (seen["session_id"], seen["path"]) == ("play-2", "live/cam1")
    figures = tick["figures"]
    assert (figures["node"], figures["publishers"], figures["connections"]) == ("node-1", 1, 2)
    assert 0 <= figures["loop_delay_ms"] < (loop.time() - began) * 1000
    assert figures["issues"] == []
    assert any(figures["caches_bytes"] for figures in app.figures)
    assert sum(sample.video_frames for sample in app.samples) == 10
    assert sum(sample.keyframes for sample in app.samples) == 10
    assert app.samples[0].rtt_ms is not None
    (ended,) = app.connections[0].of("rtmp.unpublish")
    assert ended["totals"]["video_frames"] == 10


async def test_a_disk_that_hangs_holds_up_nothing(
    app: ScriptedApp, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = HangingDisk(monkeypatch)
    try:
        server = await serve(config={"disk": tmp_path})
        async with publishing(server) as (publisher, stream_id), playing(server) as player:
            await app.wait_until(lambda: len(app.ticks) >= 2)
            await publisher.send_video(stream_id, 0, AVC_HEADER)
            await publisher.send_video(stream_id, 0, key_frame(0))
            await player.wait_count(events.VideoReceived, 2)
            assert disk.waiting == 1
            figures = app.figures[-1]
            assert figures["disk_free_percent"] is None
            assert figures["disk_hangs_s"] > 0
            disk.let_go()
            await app.wait_until(lambda: app.figures[-1]["disk_free_percent"] is not None)
            assert app.figures[-1]["disk_hangs_s"] == 0
            disk.hang()
            await app.wait_until(lambda: app.figures[-1]["disk_hangs_s"] > 0)
        await server.stop(grace_s=2)
    finally:
        disk.let_go()


async def test_failed_node_application_is_restarted(
    app: ScriptedApp, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(_instance: Instance, _event: Message) -> Message:
        del app.on["node.tick"]
        raise RuntimeError("broken on purpose")

    app.on["node.tick"] = fail
    await serve()
    await app.wait_until(lambda: len(app.nodes) == 2 and bool(app.nodes[1].of("node.tick")))
    assert app.nodes[1].kinds[0] == "node.started"
    assert [record.levelname for record in caplog.records if record.exc_info] == ["ERROR"]


async def test_samples_that_a_busy_application_could_not_take_come_later(app: ScriptedApp, serve: Serve) -> None:
    go = asyncio.Event()

    async def stall(_instance: Instance, _event: Message) -> None:
        await go.wait()

    app.on["node.tick"] = stall
    server = await serve(config={"inbox_ticks": 1})
    async with publishing(server) as (client, stream_id):
        async with asyncio.timeout(10):
            sent = 0
            while len(server.node.unsent) < 2:
                await client.send_video(stream_id, sent * 20, key_frame(sent))
                sent += 1
                await asyncio.sleep(0.02)
        await client.delete_stream(stream_id)
        await app.event("rtmp.unpublish")
    go.set()
    await app.wait_until(lambda: sum(sample.video_frames for sample in app.samples) >= sent)
    assert sum(sample.video_frames for sample in app.samples) == sent
    assert [sample.sequence for sample in app.samples] == list(range(1, len(app.samples) + 1))
    assert not server.node.unsent


async def test_a_machines_clock_that_leaps_leaves_no_gap_in_what_is_measured(
    app: ScriptedApp, server: RtmpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time
    async with connected(server) as publisher:
        sending = asyncio.create_task(keep_sending(publisher, await publisher.publish("cam1")))
        for leap_s in (0.0, 3600.0, 0.0):
            monkeypatch.setattr(time, "time", lambda leap_s=leap_s: real() + leap_s)
            known = len(app.samples)
            await app.wait_until(lambda known=known: len(app.samples) >= known + 2)  # type: ignore[misc]
        sending.cancel()
    measured = app.samples
    for before, after in pairwise(measured):
        assert (after.at_us - before.at_us) / 1e6 == pytest.approx(after.elapsed_ms / 1000, abs=1)
    assert measured[-1].at_us / 1e6 == pytest.approx(real(), abs=60)
    assert all(abs(figures["at"] - real()) < 60 for figures in app.figures)


async def test_a_stop_ends_all_sessions_in_order(app: ScriptedApp, server: RtmpServer) -> None:
    port = server.addresses[0][1]
    async with publishing(port, AVC_HEADER) as (publisher, _), playing(port) as player, RtmpClient(port=port):
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


async def test_a_stop_does_not_wait_for_a_peer_that_reads_nothing(app: ScriptedApp, server: RtmpServer) -> None:
    async with publishing(server) as (publisher, stream_id), playing(server) as player:
        player.pause_reading()
        await publisher.send_video(stream_id, 0, AVC_HEADER)
        for number in range(200):
            await publisher.send_video(stream_id, number * 40, key_frame(number, 60_000))
        await asyncio.wait_for(server.stop(grace_s=0.3), 20)
    assert [event["reason"] for event in app.connections[1].of("rtmp.stop")] == ["node_shutdown"]


HAS_PROC = Path("/proc/self/statm").exists()


async def test_node_counters_match_the_session_totals_and_never_fall(app: ScriptedApp, server: RtmpServer) -> None:
    async with Stage(server.addresses[0][1]) as stage:
        camera, viewer = await stage.camera("cam1"), await stage.viewer("cam1")
        await camera.send(key=True, count=5)
        await viewer.hear(5)
        await app.wait_until(lambda: any(each["counters"]["video_frames"] == 5 for each in app.figures))
    await app.wait_until(lambda: app.figures[-1]["connections"] == 0)
    await app.next_tick()
    counted = [each["counters"] for each in app.figures]
    for before, after in pairwise(counted):
        assert all(after[name] >= before[name] for name in before)
    published = (await app.event("rtmp.unpublish", connection=0))["totals"]
    played = (await app.event("rtmp.stop", connection=1))["totals"]
    assert counted[-1] == {
        "received_bytes": published["bytes_in"],
        "sent_bytes": played["bytes_out"],
        "video_frames": 5,
        "audio_frames": 5,
        "dropped_frames": 0,
    }
    assert played["bytes_out"] > 0


async def test_node_figures_show_process_usage_and_loop_delays(app: ScriptedApp, serve: Serve) -> None:
    await serve()
    await app.wait_until(lambda: len(app.figures) > 1)
    first, last = app.figures[0], app.figures[-1]
    for figures in (first, last):
        assert len(figures["loop_delays"]["counts"]) == len(figures["loop_delays"]["bounds_s"]) + 1
    assert sum(last["loop_delays"]["counts"]) > sum(first["loop_delays"]["counts"]) > 0
    process = last["process"]
    assert first["process"]["cpu_s"] <= process["cpu_s"]
    assert process["started_at"] < time.time()
    if HAS_PROC:
        assert process["resident_bytes"] > 1024 * 1024
        assert 3 < process["open_files"] < process["most_files"]


def test_loop_delays_are_counted_by_their_histogram_bounds() -> None:
    delay = LoopDelay()
    for late_s in (-0.0001, 0.001, 0.0011, 0.3, 7.0):
        delay.add(late_s)
    figures = delay.figures
    found = dict(zip((*figures["bounds_s"], "over"), figures["counts"], strict=True))
    assert {bound: count for bound, count in found.items() if count} == {0.001: 2, 0.0025: 1, 0.5: 1, "over": 1}
    assert figures["sum_s"] == round(0.001 + 0.0011 + 0.3 + 7.0, 6)
    assert (delay.take_most(), delay.take_most()) == (7.0, 0.0)
    assert list(BOUNDS_S) == sorted(BOUNDS_S)
