"""What a player of a live stream asks for while it plays: pause, receiveAudio, receiveVideo, seek."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from ingest.rtmp import events
from ingest.server import RtmpServer
from ingest.server.player import Player
from tests.server.app import ScriptedApp
from tests.server.clients import Camera, Stage, Viewer
from tests.server.conftest import OnStage, Serve
from tests.server.media import AAC_HEADER, AVC_HEADER, key_frame, sound
from tests.server.recorded.conftest import made, record, write
from tests.server.waiting import becomes, set_deadlines

OTHER_HEADER = AVC_HEADER[:-1] + b"\x81"


async def test_live_pause_sends_nothing_and_unpause_resumes_at_a_keyframe(app: ScriptedApp, stage: Stage) -> None:
    camera, other = await stage.camera("cam1"), await stage.viewer("cam1")
    viewer = await stage.viewer("cam1")
    await viewer.hears(camera)
    paused = await viewer.pause()
    assert (paused.level, paused.stream_id) == ("status", viewer.stream_id)
    await camera.send(count=3)
    await camera.send(key=True)
    await other.hear(5)
    assert viewer.video == [AVC_HEADER, key_frame(1)], "nothing comes while it is paused"
    await viewer.unpause()
    await camera.send(count=2)
    last = await viewer.sees(camera)
    assert viewer.video == [AVC_HEADER, key_frame(1), key_frame(8)], "at a keyframe, with the headers that it has"
    assert last.timestamp == camera.time, "it is live again"
    await viewer.close()
    assert (await app.event("rtmp.stop"))["totals"]["dropped_frames"] == 0


async def test_unpause_after_a_publisher_change_sends_new_headers_in_rising_time(stage: Stage) -> None:
    camera, other = await stage.camera("cam1", begins_at=5000), await stage.viewer("cam1")
    viewer = await stage.viewer("cam1")
    await camera.send(key=True)
    before = (await viewer.picture(camera.key_frame)).timestamp
    await viewer.hear(1)
    await viewer.pause()
    second = await stage.camera("cam1", avc=OTHER_HEADER)
    await second.send(key=True)
    await other.picture(OTHER_HEADER)
    await viewer.unpause()
    await second.send(count=2)
    after = await viewer.sees(second)
    assert viewer.video == [AVC_HEADER, key_frame(1), OTHER_HEADER, second.key_frame]
    assert [event.payload for event in viewer.of(events.AudioReceived)].count(AAC_HEADER) == 2
    assert after.timestamp > before
    assert viewer.times == sorted(viewer.times)


@pytest.mark.parametrize(("kind", "other"), [("Video", "Audio"), ("Audio", "Video")])
async def test_receive_false_stops_that_media_kind_until_receive_true(stage: Stage, kind: str, other: str) -> None:
    camera, viewer = await stage.camera("cam1"), await stage.viewer("cam1")
    await viewer.hears(camera)
    wanted: Any = events.VideoReceived if kind == "Video" else events.AudioReceived
    rest: Any = events.AudioReceived if kind == "Video" else events.VideoReceived
    await viewer.ask(f"receive{kind}", False)
    await viewer.ask(f"receive{other}", True)  # Its answer tells that the one before was read.
    await viewer.status("NetStream.Seek.Notify")
    had = len(viewer.of(wanted))
    await camera.send(count=4)
    await viewer.wait_count(rest, 6)
    assert len(viewer.of(wanted)) == had
    begin = len(viewer.received)
    await viewer.ask(f"receive{kind}", True)
    await viewer.status("NetStream.Seek.Notify", after=begin)
    await viewer.status("NetStream.Play.Start", after=begin)
    await camera.send()
    await camera.send(key=True)
    await viewer.hear(7)
    await viewer.picture(camera.key_frame)
    again = [event.payload for event in viewer.of(wanted)][had:]
    assert again == ([camera.key_frame] if kind == "Video" else [sound(6), sound(7)]), "at a keyframe"


async def test_receive_video_false_still_holds_after_pause_and_unpause(stage: Stage) -> None:
    camera, viewer = await stage.camera("cam1"), await stage.viewer("cam1")
    await viewer.ask("receiveVideo", False)
    for paused in (True, False):
        await viewer.ask("pause", paused, 0.0)
    await viewer.status("NetStream.Unpause.Notify")
    await viewer.hears(camera)
    assert key_frame(1) not in viewer.video


async def test_seek_in_a_live_stream_fails_and_playback_goes_on(stage: Stage) -> None:
    camera, viewer = await stage.camera("cam1"), await stage.viewer("cam1")
    await viewer.ask("seek", 10_000.0)
    failed = await viewer.status("NetStream.Seek.Failed")
    assert failed.level == "error"
    await viewer.sees(camera)


async def test_pause_without_a_play_is_answered_with_an_error(stage: Stage) -> None:
    viewer = await stage.viewer()
    result = await viewer.call_on_stream("pause", True, 0.0)
    assert not result.succeeded
    assert result.values[-1]["code"] == "NetStream.InvalidArg"


async def test_paused_player_queues_nothing_and_drops_no_frames(server: RtmpServer, port: int) -> None:
    async with Stage(port) as stage:
        camera, viewer = await stage.camera("cam1"), await stage.viewer("cam1")
        await viewer.pause()
        for _ in range(60):
            await camera.client.send_video(camera.stream_id, camera.time, key_frame(1, 400_000))
        live = server.registry.streams["live/cam1"]
        (subscriber,) = live.subscribers
        assert (subscriber.pending_messages, subscriber.sheds, subscriber.dropped_frames) == (0, 0, 0)


HOUR = 3600.0
NOT_YET = {"ping_after_s": 0.1, "ping_answer_s": HOUR, "write_s": HOUR}
AT_ONCE = {"ping_answer_s": 0.2, "write_s": 0.2}


def player(server: RtmpServer) -> Player:
    (found,) = (session for session in server.sessions.values() if isinstance(session, Player))
    return found


async def pauses_unread(server: RtmpServer, camera: Camera, viewer: Viewer) -> None:
    """Its client reads nothing any more, and more waits than the kernel takes; then it pauses."""
    viewer.pause_reading()
    outlet = player(server).connection.outlet
    async with asyncio.timeout(10):
        while not outlet.is_full:
            await camera.client.send_video(camera.stream_id, camera.time, key_frame(0, 60_000))
    await viewer.ask("pause", True, 0.0)
    await becomes(lambda: player(server).paused_since is not None)
    assert outlet.is_full


async def test_paused_live_player_that_reads_nothing_outlives_the_deadlines(
    app: ScriptedApp, on_stage: OnStage
) -> None:
    stage = await on_stage(**NOT_YET)
    camera, viewer = await stage.camera("cam1"), await stage.viewer("cam1")
    await pauses_unread(stage.server, camera, viewer)
    set_deadlines(stage.server, **AT_ONCE)
    await asyncio.sleep(1)  # The deadlines are over, and it is not ended.
    set_deadlines(stage.server, **NOT_YET)
    assert not app.connections[1].of("rtmp.stop")
    viewer.resume_reading()
    await viewer.unpause()
    await viewer.sees(camera)


async def test_paused_recording_player_outlives_the_deadlines_and_loses_nothing(
    app: ScriptedApp, serve: Serve, tmp_path: Path
) -> None:
    """It goes on where it was, with what its client had not taken."""
    clip = made(24, key_bytes=1_000_000)
    record(app, write(tmp_path / "clip.flv", clip))
    server = await serve(**NOT_YET)
    async with Viewer(port=server.addresses[0][1]) as viewer:
        await viewer.watch()
        await viewer.wait_for(events.VideoReceived)
        viewer.pause_reading()
        outlet = player(server).connection.outlet
        await becomes(lambda: outlet.is_full)
        await viewer.ask("pause", True, 0.0)
        await becomes(lambda: player(server).paused_since is not None)
        set_deadlines(server, **AT_ONCE)
        await asyncio.sleep(1)  # The deadlines are over, and it is not ended.
        set_deadlines(server, **NOT_YET)
        assert not app.connections[0].of("rtmp.stop")
        viewer.resume_reading()
        await viewer.ask("pause", False, 0.0)
        await viewer.until_over(timeout_s=8)
        assert sorted(viewer.media()) == sorted(clip)  # Sounds overtake a long picture.


async def test_paused_player_that_reads_nothing_is_ended_after_the_pause_limit(
    app: ScriptedApp, on_stage: OnStage
) -> None:
    stage = await on_stage(**NOT_YET, pause_s=HOUR)
    camera, viewer = await stage.camera("cam1"), await stage.viewer("cam1")
    await pauses_unread(stage.server, camera, viewer)
    set_deadlines(stage.server, **AT_ONCE, pause_s=0.1)
    assert (await app.event("rtmp.stop", connection=1))["reason"] in ("idle_timeout", "too_slow")


async def test_connection_with_a_paused_and_a_playing_stream_is_ended_by_deadline(
    app: ScriptedApp, on_stage: OnStage
) -> None:
    """What its client does not read is live."""
    stage = await on_stage(**NOT_YET)
    camera, viewer = await stage.camera("cam1"), await stage.viewer("cam1")
    await viewer.pause()
    await viewer.play("cam1")
    viewer.pause_reading()
    set_deadlines(stage.server, ping_answer_s=0.2)
    await app.event("rtmp.stop", connection=1)
    assert not camera.client.closed


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this system has no TCP_USER_TIMEOUT")
async def test_tcp_user_timeout_is_off_while_a_player_is_paused(
    app: ScriptedApp, on_stage: OnStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux ends a connection whose window stays closed for TCP_USER_TIMEOUT, at the probe after that."""
    monkeypatch.setattr("ingest.server.sockets.KEEPALIVE_OPTIONS", (("TCP_USER_TIMEOUT", 300),))
    stage = await on_stage(**NOT_YET)
    camera, viewer = await stage.camera("cam1"), await stage.viewer("cam1")
    await pauses_unread(stage.server, camera, viewer)
    found = player(stage.server).connection.transport.get_extra_info("socket")
    assert found.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 0
    await asyncio.sleep(1.5)  # Twice as long as Linux would wait, with its probes, and it is not ended.
    assert not app.connections[1].of("rtmp.stop")
