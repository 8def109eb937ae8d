"""Playlists (section 7.2.2.1) of live streams and recordings: item after item, what is missing, and the end."""

import asyncio
from pathlib import Path

import pytest

from ingest.rtmp import events
from ingest.rtmp.messages.control import UserControl
from ingest.server import Deadlines
from tests.server.app import Instance, Message, ScriptedApp
from tests.server.clients import Stage, Viewer
from tests.server.conftest import OnStage
from tests.server.media import AVC_HEADER, inter_frame, key_frame
from tests.server.plays.test_switching import refreshing_camera
from tests.server.recorded.conftest import made, write

NOT_FOUND = "NetStream.Play.StreamNotFound"
HOUR = 3600.0
FAR_S = 0.15
"""A round trip to another continent."""


def ends(app: ScriptedApp) -> list[str]:
    """The reason of each play that has ended, on any connection."""
    return [stop["reason"] for stop in app.stops]


def asked(app: ScriptedApp) -> list[str]:
    return [event["name"] for each in app.connections for event in each.of("rtmp.play")]


def eofs(viewer: Viewer) -> int:
    return sum(event.event is UserControl.STREAM_EOF for event in viewer.of(events.UserControlReceived))


async def test_playlist_items_play_in_order_each_for_its_duration(app: ScriptedApp, stage: Stage) -> None:
    one, two = await stage.camera("one"), await stage.camera("two", begins_at=90_000)
    viewer = await stage.viewer("one", -1000.0, 200.0, True)
    await viewer.ask("play", "two", -1000.0, 80.0, False)
    await one.send(key=True, count=8)
    await viewer.play_status("NetStream.Play.Switch")
    await viewer.wait_until(lambda: viewer.codes.count("NetStream.Play.Start") == 2)
    await two.send(key=True, count=8)
    await viewer.status("NetStream.Play.Stop")
    times = [video.timestamp for video in viewer.of(events.VideoReceived) if video.payload != AVC_HEADER]
    assert times == [40, 80, 120, 160, 200, 90_040, 90_080], "the media's time, from the first frame on"
    assert viewer.codes == [f"NetStream.Play.{code}" for code in ("Reset", "Start", "Start", "Stop")]
    assert viewer.play_codes == ["NetStream.Play.Switch", "NetStream.Play.Complete"]
    assert eofs(viewer) == 1
    await app.wait_until(lambda: len(ends(app)) == 2)
    assert ends(app) == ["completed", "completed"]
    assert asked(app) == ["one", "two"]
    assert not viewer.closed


async def test_play_duration_uses_the_unit_that_the_application_sets(app: ScriptedApp, stage: Stage) -> None:
    app.change("rtmp.play", start_unit="s")
    camera, viewer = await stage.camera("one"), await stage.viewer("one", -1.0, 0.2)
    await camera.send(key=True, count=8)
    await viewer.status("NetStream.Play.Stop")
    assert len(viewer.video) == 1 + 5


@pytest.mark.parametrize("has_video", [True, False])
async def test_a_duration_of_0_is_one_frame(stage: Stage, has_video: bool) -> None:
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
    media = viewer.of(events.VideoReceived) + viewer.of(events.AudioReceived)
    assert [event.payload for event in media] == ([AVC_HEADER, key_frame(1)] if has_video else [b"\xaf\x01sound"])


async def test_a_duration_of_0_is_the_next_picture_where_none_is_a_keyframe(stage: Stage) -> None:
    camera = await refreshing_camera(stage, "one")
    viewer = await stage.viewer("one", -1000.0, 0.0)
    await viewer.status("NetStream.Play.Start")
    await camera.send(count=2)
    await viewer.status("NetStream.Play.Stop")
    assert viewer.video == [AVC_HEADER, inter_frame(2)]


async def test_playlist_goes_on_with_the_next_item_when_the_publisher_leaves(stage: Stage) -> None:
    one, two = await stage.camera("one"), await stage.camera("two")
    viewer, waiting = await stage.viewer("one"), await stage.viewer("one")
    await viewer.ask("play", "two", -1000.0, -1.0, False)
    await viewer.hears(one)
    await one.client.close()
    await viewer.play_status("NetStream.Play.Switch")
    await two.send(key=True)
    await viewer.wait_until(lambda: viewer.video.count(AVC_HEADER) == 2)
    assert waiting.codes == ["NetStream.Play.Start"], "who has nothing else waits for it"


async def test_unpublished_playlist_item_is_skipped_after_its_play_duration(app: ScriptedApp, stage: Stage) -> None:
    viewer = await stage.viewer("nobody", -1000.0, 100.0)
    await viewer.ask("play", "two", -1000.0, -1.0, False)
    await viewer.play_status("NetStream.Play.Switch")
    await app.wait_until(lambda: asked(app) == ["nobody", "two"])


async def test_missing_items_are_skipped(app: ScriptedApp, stage: Stage) -> None:
    app.refuse("play", NOT_FOUND, "Not here.", "lost", "gone")
    one = await stage.camera("one")
    await stage.camera("two")
    viewer = await stage.viewer("one", -1000.0, 40.0)
    for name in ("lost", "gone", "two"):
        await viewer.ask("play", name, -1000.0, -1.0, False)
    await one.send(key=True, count=3)
    await viewer.wait_until(lambda: viewer.codes.count("NetStream.Play.Start") == 2)
    assert viewer.play_codes == ["NetStream.Play.Switch", NOT_FOUND, NOT_FOUND]
    assert NOT_FOUND not in viewer.codes
    assert asked(app) == ["one", "lost", "gone", "two"]


async def test_playlist_with_a_missing_last_item_reports_it_and_ends(app: ScriptedApp, stage: Stage) -> None:
    app.refuse("play", NOT_FOUND, "Not here.", "lost")
    one, viewer = await stage.camera("one"), await stage.viewer("one", -1000.0, 40.0)
    await viewer.ask("play", "lost", -1000.0, -1.0, False)
    await one.send(key=True, count=3)
    await viewer.status("NetStream.Play.Stop")
    assert (viewer.play_codes, eofs(viewer)) == (["NetStream.Play.Switch", NOT_FOUND], 1)


@pytest.mark.parametrize("at_once", [True, False])
async def test_playlist_with_missing_first_items_starts_at_the_first_present_one(
    app: ScriptedApp, on_stage: OnStage, at_once: bool
) -> None:
    app.refuse("play", NOT_FOUND, "Not here.", "lost", "gone")
    assert Deadlines().next_item_s > FAR_S
    stage = await on_stage(next_item_s=HOUR)
    await stage.camera("two")
    viewer = await stage.viewer()
    for number, name in enumerate(("lost", "gone", "two")):
        viewer.protocol.notify("play", name, -1000.0, -1.0, number == 0, stream_id=viewer.stream_id)
        if not at_once:
            await viewer.flush()
            missing = min(number + 1, 2)
            await viewer.wait_until(lambda missing=missing: viewer.codes.count(NOT_FOUND) == missing)  # type: ignore[misc]
            await asyncio.sleep(FAR_S)
    await viewer.flush()
    await viewer.status("NetStream.Play.Start")
    assert viewer.codes == [NOT_FOUND, NOT_FOUND, "NetStream.Play.Start"]
    await viewer.pause()
    assert not viewer.closed


async def test_playlist_of_missing_items_only_closes_the_connection(app: ScriptedApp, stage: Stage) -> None:
    app.refuse("play", NOT_FOUND, "Not here.", "lost", "gone")
    viewer = await stage.viewer()
    for name in ("lost", "gone"):
        viewer.protocol.notify("play", name, -1000.0, -1.0, False, stream_id=viewer.stream_id)
    await viewer.flush()
    await viewer.wait_closed()
    assert viewer.codes == [NOT_FOUND, NOT_FOUND]
    assert (await app.event("rtmp.disconnect"))["reason"] == "rejected"


async def test_refusal_after_a_play_has_its_whole_time_for_the_next_item(app: ScriptedApp, on_stage: OnStage) -> None:
    app.refuse("play", NOT_FOUND, "Not here.", "lost")
    limit_s = 0.4
    stage = await on_stage(next_item_s=limit_s, linger_s=0)
    viewer, now = await stage.viewer(), asyncio.get_running_loop().time
    await viewer.ask("play", "lost")
    await viewer.status(NOT_FOUND)
    await viewer.ask("play", "one")
    await viewer.status("NetStream.Play.Start")
    await viewer.ask("closeStream")
    await asyncio.sleep(FAR_S)
    asked_at = now()
    await viewer.ask("play", "lost")
    await viewer.wait_closed()
    assert viewer.codes.count(NOT_FOUND) == 2
    assert now() - asked_at >= limit_s


async def test_repeated_plays_of_a_missing_name_are_cut_off_after_16_requests(app: ScriptedApp, stage: Stage) -> None:
    app.refuse("play", NOT_FOUND, "Not here.", "lost")
    viewer = await stage.viewer()
    await viewer.ask("play", "lost", times=100)
    await viewer.wait_closed()
    assert len(asked(app)) == 16


async def test_kicked_player_does_not_go_on_with_the_next_playlist_item(app: ScriptedApp, stage: Stage) -> None:
    camera, viewer = await stage.camera("one"), await stage.viewer("one")
    await viewer.ask("play", "two", -1000.0, -1.0, False)
    await viewer.hears(camera)
    await app.node.send({"type": "node.drop", "session_id": stage.plays[0], "reason": "kicked"})
    await viewer.wait_closed()
    assert asked(app) == ["one"]
    assert ends(app) == ["kicked"]


COMPLETE = "NetStream.Play.TransitionComplete"
CLIP = made(5, key_bytes=640)
"""Longer than what is sent ahead."""
CLIP_KEYS = {payload for _, _, payload in CLIP if payload[:2] == b"\x17\x01"}


@pytest.fixture(autouse=True)
def recordings(app: ScriptedApp, tmp_path: Path) -> None:
    """Names that begin with `clip` are recordings."""
    path = write(tmp_path / "clip.flv", CLIP)

    async def decide(instance: Instance, event: Message) -> Message:
        answer = await app.accept_play(instance, event)
        if event["name"].startswith("clip"):
            answer["recording"] = {"recording": 1, "name": event["name"], "file": str(path), "duration_ms": 5000}
        return answer

    app.on["rtmp.play"] = decide


def clip_pictures(viewer: Viewer) -> list[events.VideoReceived]:
    return [event for event in viewer.of(events.VideoReceived) if event.payload in CLIP_KEYS]


async def test_switch_from_live_to_a_recording_and_back_keeps_time_continuous(app: ScriptedApp, stage: Stage) -> None:
    camera = await stage.camera("cam", begins_at=60_000)
    viewer = await stage.viewer("cam")
    await viewer.hears(camera)
    await viewer.switch("clip", start=1000.0)
    await viewer.play_status(COMPLETE)
    await viewer.wait_until(lambda: len(clip_pictures(viewer)) >= 2)
    assert 60_000 <= clip_pictures(viewer)[0].timestamp < 65_000, "on the live stream's time"
    await viewer.switch("cam")
    live = await viewer.sees(camera)
    await viewer.wait_until(lambda: viewer.play_codes.count(COMPLETE) == 2)
    assert viewer.times == sorted(viewer.times)
    assert live.timestamp < 75_000
    await viewer.close()
    await app.wait_until(lambda: len(app.stops) == 3)


async def test_switch_between_recordings_goes_on_at_the_same_position(stage: Stage) -> None:
    viewer = await stage.viewer("clip", 0.0)
    await viewer.wait_until(lambda: bool(clip_pictures(viewer)))
    await viewer.switch("clip-2")
    await viewer.play_status(COMPLETE)
    await viewer.status("NetStream.Play.Stop")
    assert viewer.times == sorted(viewer.times)
    assert 4900 <= viewer.times[-1] < 5000, "it goes on, and does not begin anew"


async def test_playlist_of_live_streams_and_recordings_plays_every_item(app: ScriptedApp, stage: Stage) -> None:
    camera = await stage.camera("cam")
    viewer = await stage.viewer()
    plays = (("clip", 0.0, 400.0, True), ("cam", -1000.0, 80.0, False), ("clip", 1000.0, 300.0, False))
    for play in plays:  # In one piece: the clip is sent ahead, and would else be over before there is a next item.
        viewer.protocol.notify("play", *play, stream_id=viewer.stream_id)
    await viewer.flush()
    await viewer.wait_until(lambda: viewer.codes.count("NetStream.Play.Start") == 2)
    await camera.send(key=True, count=4)
    await viewer.status("NetStream.Play.Stop")
    assert viewer.play_codes == ["NetStream.Play.Switch", "NetStream.Play.Switch", "NetStream.Play.Complete"]
    assert key_frame(1) in viewer.video
    assert viewer.video.count(AVC_HEADER) >= 3
    await viewer.close()
    await app.wait_until(lambda: ends(app) == ["completed"] * 3)
