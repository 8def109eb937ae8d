"""The end of a live stream, as its players are told it: once, and not while an encoder reconnects."""

import asyncio
from math import inf
from pathlib import Path

import pytest

from ingest.rtmp import events
from ingest.rtmp.messages.control import UserControl
from ingest.server import RtmpServer
from tests.media import make_clip, of_kind, read_packets
from tests.server.app import ScriptedApp
from tests.server.clients import Camera, Stage, Viewer, programs
from tests.server.conftest import OnStage, Serve
from tests.server.media import key_frame
from tests.server.waiting import set_deadlines
from tests.tools import require_tool

START, ENDED, AGAIN = (f"NetStream.Play.{word}" for word in ("Start", "UnpublishNotify", "PublishNotify"))

PLAYERS = {
    "ffmpeg": "ffmpeg -v error -i {url} -c copy -f flv {out}",
    "rtmpdump": "rtmpdump -q --live -r {url} -o {out}",
}


def told(viewer: Viewer) -> list[str]:
    """Of the stream's beginnings and ends, in the order in which they came."""
    kinds = {UserControl.STREAM_BEGIN: "begin", UserControl.STREAM_EOF: "eof"}
    return [
        kinds[event.event] if isinstance(event, events.UserControlReceived) else event.code
        for event in viewer.received
        if isinstance(event, events.StatusReceived)
        or (isinstance(event, events.UserControlReceived) and event.event in kinds and event.values[0])
    ]


async def leave(app: ScriptedApp, server: RtmpServer, camera: Camera, name: str = "cam") -> None:
    await camera.client.close()
    live = server.registry.streams[f"live/{name}"]
    await app.wait_until(lambda: live.publisher is None)


async def watched(stage: Stage, name: str = "cam") -> tuple[Camera, Viewer]:
    """A stream that is on air, and a player that has seen it."""
    camera = await stage.camera(name)
    viewer = await stage.viewer(name)
    await viewer.hears(camera)
    return camera, viewer


async def test_stream_end_is_sent_once_and_a_later_publisher_is_played(app: ScriptedApp, on_stage: OnStage) -> None:
    stage = await on_stage(end_players_s=inf)
    camera, viewer = await watched(stage)
    await leave(app, stage.server, camera)
    late = await stage.viewer("cam")
    await app.next_tick(2)
    assert told(viewer) == ["begin", START], "never is never"
    set_deadlines(stage.server, end_players_s=0.0)
    await viewer.status(ENDED)
    await app.next_tick(2)
    assert told(viewer) == ["begin", START, "eof", ENDED]
    assert told(late) == ["begin", START], "who joined after it waits for the next publisher"
    camera = await stage.camera("cam")
    await camera.send(key=True)
    await viewer.wait_until(lambda: viewer.video.count(key_frame(1)) == 2)
    await late.hear(1)
    assert told(viewer) == ["begin", START, "eof", ENDED, "begin", AGAIN]
    assert told(late) == ["begin", START]
    await leave(app, stage.server, camera)
    await late.status(ENDED)
    await viewer.wait_until(lambda: told(viewer).count(ENDED) == 2)


async def test_publisher_that_returns_in_time_causes_no_stream_end(app: ScriptedApp, on_stage: OnStage) -> None:
    stage = await on_stage(end_players_s=60.0)
    camera, viewer = await watched(stage)
    await leave(app, stage.server, camera)
    again = await stage.camera("cam")
    set_deadlines(stage.server, end_players_s=0.0)
    await app.next_tick(2)
    await again.send(key=True)
    await viewer.wait_until(lambda: viewer.video.count(key_frame(1)) == 2)
    assert told(viewer) == ["begin", START]


async def test_publisher_that_sent_no_media_causes_no_stream_end(app: ScriptedApp, on_stage: OnStage) -> None:
    stage = await on_stage(end_players_s=0.0)
    viewer = await stage.viewer("cam")
    client = await stage.client()
    await client.publish("cam")
    await leave(app, stage.server, Camera(client, 1, 0))
    await app.next_tick(2)
    assert told(viewer) == ["begin", START]


async def test_paused_player_gets_the_stream_end_and_its_play_is_completed(app: ScriptedApp, on_stage: OnStage) -> None:
    stage = await on_stage(end_players_s=0.0)
    camera, viewer = await watched(stage)
    await viewer.pause()
    await leave(app, stage.server, camera)
    await viewer.status(ENDED)
    await viewer.close()
    ended = await app.event("rtmp.stop", connection=1)
    assert ended["reason"] == "completed"
    assert (await app.event("rtmp.disconnect", connection=1))["reason"] == "client_unpublish"


async def test_player_waiting_for_a_stream_of_another_node_is_sent_away(app: ScriptedApp, on_stage: OnStage) -> None:
    """Not who has the stream here, nor who plays something else."""
    stage = await on_stage(end_players_s=inf)
    why = "Play it from there."
    camera, viewer = await watched(stage)
    waiting, other = await stage.viewer("gone"), await stage.viewer("other")
    streams = {"live/cam": why, "live/gone": why, "live/never": why}
    await app.node.send({"type": "node.elsewhere", "streams": streams})
    status = await waiting.status("NetStream.Play.StreamNotFound")
    assert (status.level, status.description) == ("error", why)
    await waiting.wait_closed()
    ended = await app.event("rtmp.stop", connection=2)
    assert (ended["reason"], ended["description"]) == ("elsewhere", why)
    await viewer.hears(camera)
    assert other.codes == [START]


@pytest.mark.timeout(60)
async def test_ffmpeg_and_rtmpdump_exit_at_the_end_of_the_stream(
    app: ScriptedApp, serve: Serve, tmp_path: Path
) -> None:
    for tool in PLAYERS:
        require_tool(tool)
    clip = make_clip(tmp_path / "clip.flv", seconds=1)
    server = await serve(end_players_s=0.2)
    url = f"rtmp://127.0.0.1:{server.addresses[0][1]}/live/cam"
    outputs = {tool: tmp_path / f"{tool}.flv" for tool in PLAYERS}
    async with programs(*(PLAYERS[tool].format(url=url, out=outputs[tool]) for tool in PLAYERS)) as players:
        await app.wait_until(lambda: len(server.sessions) == len(PLAYERS), timeout_s=20)
        async with programs(f"ffmpeg -v error -re -i {clip} -c copy -f flv {url}") as publisher, asyncio.timeout(30):
            await asyncio.gather(*(process.wait() for process in (*players, *publisher)))
    sent = of_kind(read_packets(str(clip)), "video")
    for tool, output in outputs.items():
        seen = of_kind(read_packets(str(output)), "video")
        assert seen, tool
        assert seen == sent[: len(seen)], tool
