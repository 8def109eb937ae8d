"""What a player of a live stream asks for while it plays: pause, receiveAudio, receiveVideo, seek."""

from typing import Any

import pytest

from ingest.rtmp import events
from ingest.server import RtmpServer
from tests.ingest.server.app import ScriptedApplication
from tests.ingest.server.media import AAC_HEADER, AVC_HEADER, key_frame, sound
from tests.ingest.server.plays.clients import Stage

OTHER_HEADER = AVC_HEADER[:-1] + b"\x81"


async def test_pause_and_back(app: ScriptedApplication, port: int) -> None:
    async with Stage(port) as stage:
        camera, other = await stage.camera("cam1"), await stage.viewer("cam1")
        viewer = await stage.viewer("cam1")
        await camera.send(key=True)
        await viewer.hear(1)
        await viewer.ask("pause", True, 40.0)
        paused = await viewer.status("NetStream.Pause.Notify")
        assert (paused.level, paused.stream_id) == ("status", viewer.stream_id)
        await camera.send(count=3)
        await camera.send(key=True)
        await other.hear(5)
        assert viewer.video == [AVC_HEADER, key_frame(1)], "nothing comes while it is paused"
        await viewer.ask("pause", False, 40.0)
        await viewer.status("NetStream.Unpause.Notify")
        await camera.send(count=2)
        await camera.send(key=True)
        last = await viewer.picture(camera.key_frame)
        assert viewer.video == [AVC_HEADER, key_frame(1), key_frame(8)], "at a keyframe, with the headers that it has"
        assert last.timestamp == camera.time, "it is live again"
        await viewer.client.close()
        assert (await app.event("rtmp.stop"))["totals"]["dropped_frames"] == 0


async def test_new_headers_and_another_publisher_while_paused(app: ScriptedApplication, port: int) -> None:
    async with Stage(port) as stage:
        camera, other = await stage.camera("cam1", begins_at=5000), await stage.viewer("cam1")
        viewer = await stage.viewer("cam1")
        await camera.send(key=True)
        before = (await viewer.picture(camera.key_frame)).timestamp
        await viewer.hear(1)
        await viewer.ask("pause", True, 0.0)
        await viewer.status("NetStream.Pause.Notify")
        second = await stage.camera("cam1", avc=OTHER_HEADER)
        await second.send(key=True)
        await other.picture(OTHER_HEADER)
        await viewer.ask("pause", False, 0.0)
        await viewer.status("NetStream.Unpause.Notify")
        await second.send(count=2)
        await second.send(key=True)
        after = await viewer.picture(second.key_frame)
        assert viewer.video == [AVC_HEADER, key_frame(1), OTHER_HEADER, second.key_frame]
        assert [event.payload for event in viewer.client.of(events.AudioReceived)].count(AAC_HEADER) == 2
        assert after.timestamp > before
        assert viewer.times == sorted(viewer.times)


@pytest.mark.parametrize(("kind", "other"), [("Video", "Audio"), ("Audio", "Video")])
async def test_receive(app: ScriptedApplication, port: int, kind: str, other: str) -> None:
    async with Stage(port) as stage:
        camera, viewer = await stage.camera("cam1"), await stage.viewer("cam1")
        await camera.send(key=True)
        await viewer.hear(1)
        wanted: Any = events.VideoReceived if kind == "Video" else events.AudioReceived
        rest: Any = events.AudioReceived if kind == "Video" else events.VideoReceived
        await viewer.ask(f"receive{kind}", False)
        await viewer.ask(f"receive{other}", True)  # Its answer tells that the one before was read.
        await viewer.status("NetStream.Seek.Notify")
        had = len(viewer.client.of(wanted))
        await camera.send(count=4)
        await viewer.client.wait_count(rest, 6)
        assert len(viewer.client.of(wanted)) == had
        begin = len(viewer.client.received)
        await viewer.ask(f"receive{kind}", True)
        await viewer.status("NetStream.Seek.Notify", after=begin)
        await viewer.status("NetStream.Play.Start", after=begin)
        await camera.send()
        await camera.send(key=True)
        await viewer.hear(7)
        await viewer.picture(camera.key_frame)
        again = [event.payload for event in viewer.client.of(wanted)][had:]
        assert again == ([camera.key_frame] if kind == "Video" else [sound(6), sound(7)]), "at a keyframe"


async def test_what_is_unwanted_stays_so_over_a_pause(app: ScriptedApplication, port: int) -> None:
    async with Stage(port) as stage:
        camera, viewer = await stage.camera("cam1"), await stage.viewer("cam1")
        await viewer.ask("receiveVideo", False)
        for paused in (True, False):
            await viewer.ask("pause", paused, 0.0)
        await viewer.status("NetStream.Unpause.Notify")
        await camera.send(key=True)
        await viewer.hear(1)
        assert key_frame(1) not in viewer.video


async def test_there_is_nothing_to_seek_in(app: ScriptedApplication, port: int) -> None:
    async with Stage(port) as stage:
        camera, viewer = await stage.camera("cam1"), await stage.viewer("cam1")
        await viewer.ask("seek", 10_000.0)
        failed = await viewer.status("NetStream.Seek.Failed")
        assert failed.level == "error"
        await camera.send(key=True)
        await viewer.picture(camera.key_frame)


async def test_there_is_nothing_to_pause(app: ScriptedApplication, port: int) -> None:
    async with Stage(port) as stage:
        viewer = await stage.viewer()
        result = await viewer.call("pause", True, 0.0)
        assert not result.succeeded
        assert result.values[-1]["code"] == "NetStream.InvalidArg"


async def test_a_paused_player_is_no_slow_one(app: ScriptedApplication, server: RtmpServer, port: int) -> None:
    async with Stage(port) as stage:
        camera, viewer = await stage.camera("cam1"), await stage.viewer("cam1")
        await viewer.ask("pause", True, 0.0)
        await viewer.status("NetStream.Pause.Notify")
        for _ in range(60):
            await camera.client.send_video(camera.stream_id, camera.time, key_frame(1, 400_000))
        live = server.registry.get("live/cam1")
        assert live is not None
        (subscriber,) = live.subscribers
        assert (subscriber.pending_messages, subscriber.sheds, subscriber.dropped_frames) == (0, 0, 0)
