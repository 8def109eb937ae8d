"""Playlists and play2 between live streams and recordings: one player, one time."""

from pathlib import Path
from typing import Any

import pytest

from ingest.rtmp import events
from tests.ingest.server.app import Instance, Message, ScriptedApplication
from tests.ingest.server.media import AVC_HEADER, key_frame
from tests.ingest.server.plays.clients import Stage, Viewer
from tests.ingest.server.recorded.files import made, write

COMPLETE = "NetStream.Play.TransitionComplete"
CLIP = made(5, key_bytes=640)
"""Longer than what is sent ahead."""
CLIP_KEYS = {payload for _, _, payload in CLIP if payload[:2] == b"\x17\x01"}


@pytest.fixture(autouse=True)
def recordings(app: ScriptedApplication, tmp_path: Path) -> None:
    """Names that begin with `clip` are recordings."""
    path = write(tmp_path / "clip.flv", CLIP)

    async def decide(instance: Instance, event: Message) -> Message:
        answer = await app.accept_play(instance, event)
        if event["name"].startswith("clip"):
            answer["recording"] = {"recording": 1, "name": event["name"], "file": str(path), "duration_ms": 5000}
        return answer

    app.on["rtmp.play"] = decide


async def switch(viewer: Viewer, name: str, **options: Any) -> None:
    await viewer.ask("play2", {"streamName": name, "transition": "switch", **options})


def clip_pictures(viewer: Viewer) -> list[events.VideoReceived]:
    return [event for event in viewer.client.of(events.VideoReceived) if event.payload in CLIP_KEYS]


async def test_from_live_to_a_recording_and_back(app: ScriptedApplication, port: int) -> None:
    async with Stage(port) as stage:
        camera = await stage.camera("cam", begins_at=60_000)
        viewer = await stage.viewer("cam")
        await camera.send(key=True)
        await viewer.hear(1)
        await switch(viewer, "clip", start=1000.0)
        await viewer.play_status(COMPLETE)
        await viewer.client.wait_until(lambda: len(clip_pictures(viewer)) >= 2)
        first = clip_pictures(viewer)[0]
        assert 60_000 <= first.timestamp < 65_000, "on the live stream's time"
        await switch(viewer, "cam")
        await viewer.client.wait_until(lambda: viewer.codes.count("NetStream.Play.Transition") == 2)
        await camera.send(key=True)
        await viewer.client.wait_until(lambda: viewer.play_codes.count(COMPLETE) == 2)
        live = await viewer.picture(camera.key_frame)
        assert viewer.times == sorted(viewer.times)
        assert live.timestamp < 75_000
        await viewer.client.close()
        await app.wait_until(lambda: sum(len(each.of("rtmp.stop")) for each in app.connections) == 3)


async def test_from_one_recording_to_another_where_it_is(app: ScriptedApplication, port: int) -> None:
    async with Stage(port) as stage:
        viewer = await stage.viewer("clip", 0.0)
        await viewer.client.wait_until(lambda: bool(clip_pictures(viewer)))
        await switch(viewer, "clip-2")
        await viewer.play_status(COMPLETE)
        await viewer.status("NetStream.Play.Stop")
        assert viewer.times == sorted(viewer.times)
        assert 4900 <= viewer.times[-1] < 5000, "it goes on, and does not begin anew"


async def test_a_playlist_of_both(app: ScriptedApplication, port: int) -> None:
    async with Stage(port) as stage:
        camera = await stage.camera("cam")
        viewer = await stage.viewer()
        plays = (("clip", 0.0, 400.0, True), ("cam", -1000.0, 80.0, False), ("clip", 1000.0, 300.0, False))
        for play in plays:  # In one piece: the clip is sent ahead, and would else be over before there is a next item.
            viewer.client.protocol.notify("play", *play, stream_id=viewer.stream_id)
        await viewer.client.flush()
        await viewer.client.wait_until(lambda: viewer.codes.count("NetStream.Play.Start") == 2)
        await camera.send(key=True, count=4)
        await viewer.status("NetStream.Play.Stop")
        assert viewer.play_codes == ["NetStream.Play.Switch", "NetStream.Play.Switch", "NetStream.Play.Complete"]
        assert key_frame(1) in viewer.video
        assert viewer.video.count(AVC_HEADER) >= 3
    await app.wait_until(lambda: len(app.connections[-1].of("rtmp.stop")) == 3)
    assert {stop["reason"] for stop in app.connections[-1].of("rtmp.stop")} == {"completed"}
