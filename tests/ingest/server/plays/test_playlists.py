"""Playlists of live streams (section 7.2.2.1): item after item, durations, what is missing, and the end."""

import asyncio
from typing import Any

import pytest

from ingest.rtmp import events
from ingest.rtmp.messages.control import UserControl
from tests.ingest.server.app import Instance, Message, ScriptedApplication
from tests.ingest.server.conftest import Serve
from tests.ingest.server.media import AVC_HEADER, inter_frame, key_frame
from tests.ingest.server.plays.clients import Stage, Viewer

NOT_FOUND = "NetStream.Play.StreamNotFound"


def lack(app: ScriptedApplication, *names: str) -> None:
    """The application refuses these."""

    async def decide(instance: Instance, event: Message) -> Message:
        if event["name"] in names:
            return {
                "type": "rtmp.play.reject",
                "request_id": event["request_id"],
                "code": NOT_FOUND,
                "description": "Not here.",
            }
        return await app.accept_play(instance, event)

    app.on["rtmp.play"] = decide


def ends(app: ScriptedApplication) -> list[tuple[str, str]]:
    """Session and reason of each play that has ended, on any connection."""
    return [(stop["session_id"], stop["reason"]) for each in app.connections for stop in each.of("rtmp.stop")]


def asked(app: ScriptedApplication) -> list[str]:
    return [event["name"] for each in app.connections for event in each.of("rtmp.play")]


def eofs(viewer: Viewer) -> int:
    return sum(event.event is UserControl.STREAM_EOF for event in viewer.client.of(events.UserControlReceived))


async def test_item_after_item_by_duration(app: ScriptedApplication, port: int) -> None:
    async with Stage(port) as stage:
        one, two = await stage.camera("one"), await stage.camera("two", begins_at=90_000)
        viewer = await stage.viewer("one", -1000.0, 200.0, True)
        await viewer.ask("play", "two", -1000.0, 80.0, False)
        await one.send(key=True, count=8)
        await viewer.play_status("NetStream.Play.Switch")
        await viewer.client.wait_until(lambda: viewer.codes.count("NetStream.Play.Start") == 2)
        await two.send(key=True, count=8)
        await viewer.status("NetStream.Play.Stop")
        times = [video.timestamp for video in viewer.client.of(events.VideoReceived) if video.payload != AVC_HEADER]
        assert times == [40, 80, 120, 160, 200, 90_040, 90_080], "the media's time, from the first frame on"
        assert viewer.codes == [
            "NetStream.Play.Reset",
            "NetStream.Play.Start",
            "NetStream.Play.Start",
            "NetStream.Play.Stop",
        ]
        assert viewer.play_codes == ["NetStream.Play.Switch", "NetStream.Play.Complete"]
        assert eofs(viewer) == 1
        await app.wait_until(lambda: len(ends(app)) == 2)
        assert [reason for _, reason in ends(app)] == ["completed", "completed"]
        assert asked(app) == ["one", "two"]
        assert not viewer.client.closed


async def test_the_unit_of_a_duration_is_the_application_s(app: ScriptedApplication, port: int) -> None:
    async def in_seconds(instance: Instance, event: Message) -> Message:
        return await app.accept_play(instance, event) | {"start_unit": "s"}

    app.on["rtmp.play"] = in_seconds
    async with Stage(port) as stage:
        camera, viewer = await stage.camera("one"), await stage.viewer("one", -1.0, 0.2)
        await camera.send(key=True, count=8)
        await viewer.status("NetStream.Play.Stop")
        assert len(viewer.video) == 1 + 5


@pytest.mark.parametrize("has_video", [True, False])
async def test_a_duration_of_0_is_one_frame(app: ScriptedApplication, port: int, has_video: bool) -> None:
    async with Stage(port) as stage:
        publisher = await stage.client()
        stream_id = await publisher.publish("one")
        viewer = await stage.viewer("one", -1000.0, 0.0)
        if has_video:
            await publisher.send_video(stream_id, 0, AVC_HEADER)
        for at in range(3):
            await publisher.send_audio(stream_id, at, b"\xaf\x01sound")
        if has_video:
            await publisher.send_video(stream_id, 5, key_frame(1))
        await viewer.status("NetStream.Play.Stop")
        media = viewer.client.of(events.VideoReceived) + viewer.client.of(events.AudioReceived)
        assert [event.payload for event in media] == ([AVC_HEADER, key_frame(1)] if has_video else [b"\xaf\x01sound"])


async def test_a_duration_of_0_is_the_next_picture_where_none_is_a_keyframe(
    app: ScriptedApplication, serve: Serve
) -> None:
    """Its encoder refreshes its pictures by parts, and has marked none for long."""
    server = await serve()
    async with Stage(server.addresses[0][1]) as stage:
        camera = await stage.camera("one")
        await app.wait_until(lambda: server.registry.get("live/one") is not None)
        live = server.registry.streams["live/one"]
        live.video(0, inter_frame(0), asyncio.get_running_loop().time() - 20)
        await camera.send()
        await app.wait_until(lambda: live.lacks_keyframes)
        viewer = await stage.viewer("one", -1000.0, 0.0)
        await viewer.status("NetStream.Play.Start")
        await camera.send(count=2)
        await viewer.status("NetStream.Play.Stop")
        assert viewer.video == [AVC_HEADER, inter_frame(2)]


async def test_what_a_publisher_leaves_goes_on_with_the_next(app: ScriptedApplication, port: int) -> None:
    async with Stage(port) as stage:
        one, two = await stage.camera("one"), await stage.camera("two")
        viewer, waiting = await stage.viewer("one"), await stage.viewer("one")
        await viewer.ask("play", "two", -1000.0, -1.0, False)
        await one.send(key=True)
        await viewer.hear(1)
        await one.client.close()
        await viewer.play_status("NetStream.Play.Switch")
        await two.send(key=True)
        await viewer.client.wait_until(lambda: viewer.video.count(AVC_HEADER) == 2)
        assert waiting.codes == ["NetStream.Play.Start"], "who has nothing else waits for it"


async def test_a_stream_that_nobody_publishes_is_waited_for_as_long_as_it_was_to_play(
    app: ScriptedApplication, port: int
) -> None:
    async with Stage(port) as stage:
        viewer = await stage.viewer("nobody", -1000.0, 100.0)
        await viewer.ask("play", "two", -1000.0, -1.0, False)
        await viewer.play_status("NetStream.Play.Switch")
        await app.wait_until(lambda: asked(app) == ["nobody", "two"])


async def test_missing_items_are_skipped(app: ScriptedApplication, port: int) -> None:
    lack(app, "lost", "gone")
    async with Stage(port) as stage:
        one = await stage.camera("one")
        await stage.camera("two")
        viewer = await stage.viewer("one", -1000.0, 40.0)
        for name in ("lost", "gone", "two"):
            await viewer.ask("play", name, -1000.0, -1.0, False)
        await one.send(key=True, count=3)
        await viewer.client.wait_until(lambda: viewer.codes.count("NetStream.Play.Start") == 2)
        assert viewer.play_codes == ["NetStream.Play.Switch", NOT_FOUND, NOT_FOUND]
        assert NOT_FOUND not in viewer.codes
        assert asked(app) == ["one", "lost", "gone", "two"]


async def test_the_last_is_missing(app: ScriptedApplication, port: int) -> None:
    lack(app, "lost")
    async with Stage(port) as stage:
        one, viewer = await stage.camera("one"), await stage.viewer("one", -1000.0, 40.0)
        await viewer.ask("play", "lost", -1000.0, -1.0, False)
        await one.send(key=True, count=3)
        await viewer.status("NetStream.Play.Stop")
        assert (viewer.play_codes, eofs(viewer)) == (["NetStream.Play.Switch", NOT_FOUND], 1)


@pytest.mark.parametrize("at_once", [True, False])
async def test_the_first_is_missing(app: ScriptedApplication, port: int, at_once: bool) -> None:
    lack(app, "lost", "gone")
    async with Stage(port) as stage:
        await stage.camera("two")
        viewer = await stage.viewer()
        plays: list[tuple[Any, ...]] = [
            ("lost", -1000.0, -1.0, True),
            ("gone", -1000.0, -1.0, False),
            ("two", -1000.0, -1.0, False),
        ]
        for number, arguments in enumerate(plays):
            viewer.client.protocol.notify("play", *arguments, stream_id=viewer.stream_id)
            if not at_once:
                await viewer.client.flush()
                if number < 2:
                    await viewer.client.wait_until(lambda count=number + 1: viewer.codes.count(NOT_FOUND) == count)  # type: ignore[misc]
        await viewer.client.flush()
        await viewer.status("NetStream.Play.Start")
        assert viewer.codes == [NOT_FOUND, NOT_FOUND, "NetStream.Play.Start"]
        await viewer.ask("pause", True, 0.0)
        await viewer.status("NetStream.Pause.Notify")
        assert not viewer.client.closed


async def test_all_are_missing(app: ScriptedApplication, port: int) -> None:
    lack(app, "lost", "gone")
    async with Stage(port) as stage:
        viewer = await stage.viewer()
        for name in ("lost", "gone"):
            viewer.client.protocol.notify("play", name, -1000.0, -1.0, False, stream_id=viewer.stream_id)
        await viewer.client.flush()
        await viewer.client.wait_closed()
        assert viewer.codes == [NOT_FOUND, NOT_FOUND]
        await app.event("rtmp.disconnect")
        assert app.connections[-1].of("rtmp.disconnect")[0]["reason"] == "rejected"


async def test_who_guesses_names_is_let_guess_some(app: ScriptedApplication, port: int) -> None:
    lack(app, "lost")
    async with Stage(port) as stage:
        viewer = await stage.viewer()
        for _ in range(100):
            viewer.client.protocol.notify("play", "lost", stream_id=viewer.stream_id)
        await viewer.client.flush()
        await viewer.client.wait_closed()
        assert len(asked(app)) == 16


async def test_a_kicked_player_has_no_next(app: ScriptedApplication, serve: Serve) -> None:
    server = await serve()
    async with Stage(server.addresses[0][1]) as stage:
        camera, viewer = await stage.camera("one"), await stage.viewer("one")
        await viewer.ask("play", "two", -1000.0, -1.0, False)
        await camera.send(key=True)
        await viewer.hear(1)
        session_id = next(key for key in server.sessions if key.startswith("play"))
        await app.node.send({"type": "node.drop", "session_id": session_id, "reason": "kicked"})
        await viewer.client.wait_closed()
        assert asked(app) == ["one"]
        assert [reason for _, reason in ends(app)] == ["kicked"]
