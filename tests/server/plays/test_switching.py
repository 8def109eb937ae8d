"""play2 on live streams (section 7.2.2.2): the new one takes the place of the old one at its keyframe."""

import asyncio
from typing import Any

import pytest

from ingest.rtmp import events
from tests.server.app import Instance, Message, ScriptedApp
from tests.server.clients import Camera, Stage, Viewer
from tests.server.conftest import OnStage
from tests.server.media import AAC_HEADER, AVC_HEADER, inter_frame, key_frame, sound
from tests.server.waiting import becomes

OTHER_HEADER = AVC_HEADER[:-1] + b"\x81"
TRANSITION, COMPLETE = "NetStream.Play.Transition", "NetStream.Play.TransitionComplete"


async def play2(viewer: Viewer, name: str, transition: str = "switch", **options: Any) -> None:
    await viewer.ask("play2", {"streamName": name, "transition": transition, **options})


def ends(app: ScriptedApp) -> list[str]:
    """The reason of each play's end."""
    return [stop["reason"] for stop in app.stops]


async def refreshing_camera(stage: Stage, name: str, **options: Any) -> Camera:
    """Add a camera that refreshes its pictures by parts, and has marked no keyframe for long."""
    camera = await stage.camera(name, **options)
    await becomes(lambda: f"live/{name}" in stage.server.registry.streams)
    live = stage.server.registry.streams[f"live/{name}"]
    live.video(0, inter_frame(0), asyncio.get_running_loop().time() - 20)
    await camera.send()
    await becomes(lambda: live.lacks_keyframes)
    return camera


@pytest.mark.parametrize("transition", ["switch", "swap"])
@pytest.mark.parametrize("begins_at", [0, 700_000, 0xFFFFFFF0])
async def test_play2_switches_at_a_keyframe_with_continuous_timestamps(
    app: ScriptedApp, stage: Stage, transition: str, begins_at: int
) -> None:
    old = await stage.camera("old", begins_at=20_000)
    new = await stage.camera("new", begins_at=begins_at, avc=OTHER_HEADER)
    await new.send(key=True)
    viewer = await stage.viewer("old")
    await old.send(key=True, count=2)
    await play2(viewer, "new", transition)
    accepted = await viewer.status(TRANSITION)
    assert (accepted.level, accepted.info["reason"]) == ("status", "NetStream.Transition.Success")
    await new.send(count=2)
    await old.send(count=2)
    await viewer.hear(4)
    assert viewer.video[-1] not in (OTHER_HEADER, key_frame(1)), "what plays goes on"
    assert not viewer.play_codes
    await new.send(key=True, count=2)
    assert (await viewer.play_status(COMPLETE))["details"] == "new"
    await old.send(key=True)
    await new.send(key=True)
    await viewer.picture(key_frame(6))
    began = viewer.video.index(OTHER_HEADER)
    assert viewer.video[began : began + 2] == [OTHER_HEADER, key_frame(4)]
    assert key_frame(5) not in viewer.video[began:], "nothing of the old one comes any more"
    assert viewer.times == sorted(viewer.times)
    assert viewer.times[-1] < 25_000, "on the old one's time"
    frames = [each.timestamp for each in viewer.of(events.VideoReceived)][began + 1 :]
    assert [after - frames[0] for after in frames] == [0, 40, 80], "as far apart as they were sent"
    await app.wait_until(lambda: ends(app) == ["completed"])
    assert app.stops[0]["description"] == "The client switched to new."


async def test_play2_to_a_stream_without_keyframes_switches_at_the_next_picture(stage: Stage) -> None:
    old, new = await stage.camera("old"), await refreshing_camera(stage, "new", avc=OTHER_HEADER)
    viewer = await stage.viewer("old")
    await old.send(key=True)
    await viewer.switch("new")
    await new.send()
    await viewer.play_status(COMPLETE)
    await viewer.picture(inter_frame(2))
    assert viewer.video[-2:] == [OTHER_HEADER, inter_frame(2)]
    assert viewer.times == sorted(viewer.times)


async def test_play2_has_two_play_sessions_until_the_switch_and_one_after_it(app: ScriptedApp, stage: Stage) -> None:
    old, new = await stage.camera("old"), await stage.camera("new")
    viewer = await stage.viewer("old")
    await viewer.hears(old)
    await viewer.switch("new")
    playing = stage.plays
    assert len(playing) == 2
    await new.send(key=True)
    await viewer.play_status(COMPLETE)
    assert stage.plays == playing[1:]
    await viewer.close()
    await app.wait_until(lambda: len(ends(app)) == 2)
    assert (app.stops[1]["session_id"], app.stops[1]["totals"]["video_frames"]) == (playing[1], 1)
    assert not stage.server.registry.streams["live/old"].subscribers


async def test_play2_to_a_stream_that_sends_nothing_fails_and_the_old_one_goes_on(
    app: ScriptedApp, on_stage: OnStage
) -> None:
    stage = await on_stage(switch_s=0.2)
    camera = await stage.camera("old")
    viewer = await stage.viewer("old")
    await viewer.switch("nobody")
    failed = await viewer.status("NetStream.Play.Failed")
    assert failed.level == "error"
    assert failed.description == "nobody has sent nothing to begin with. What plays goes on."
    await viewer.sees(camera)
    assert ends(app) == ["idle_timeout"]
    live = stage.server.registry.get("live/nobody")
    assert live is None or not live.subscribers


async def test_refused_play2_leaves_the_current_stream_playing(app: ScriptedApp, stage: Stage) -> None:
    app.refuse("play", "NetStream.Play.StreamNotFound", "Not here.", "new")
    camera, viewer = await stage.camera("old"), await stage.viewer("old")
    await play2(viewer, "new")
    await viewer.status("NetStream.Play.StreamNotFound")
    await viewer.sees(camera)


async def test_second_play2_replaces_a_pending_one_with_continuous_timestamps(app: ScriptedApp, stage: Stage) -> None:
    old, last = await stage.camera("old"), await stage.camera("last", begins_at=9000)
    viewer = await stage.viewer("old")
    await old.send(key=True)
    await viewer.switch("nobody")
    await viewer.switch("last")
    await last.send(key=True)
    await viewer.play_status(COMPLETE)
    await app.wait_until(lambda: len(ends(app)) == 2)
    assert ends(app) == ["client_unpublish", "completed"]
    for count in range(3):  # And there and back again: its time goes on through all of them.
        back, camera = ("old", old) if count % 2 == 0 else ("last", last)
        await viewer.switch(back)
        await camera.send(key=True)
        await viewer.wait_until(lambda wanted=2 + count: viewer.play_codes.count(COMPLETE) == wanted)  # type: ignore[misc]
    assert viewer.times == sorted(viewer.times)
    assert viewer.times[-1] < 5000


@pytest.mark.parametrize("who", ["client", "server"])
async def test_close_or_kick_during_a_pending_play2_ends_both_plays(app: ScriptedApp, stage: Stage, who: str) -> None:
    await stage.camera("old")
    viewer = await stage.viewer("old")
    await viewer.switch("nobody")
    if who == "client":
        await viewer.ask("closeStream")
    else:
        await app.node.send({"type": "node.drop", "session_id": stage.plays[0], "reason": "kicked"})
    await app.wait_until(lambda: len(ends(app)) == 2)
    assert set(ends(app)) == {"client_unpublish" if who == "client" else "kicked"}
    assert not stage.plays


@pytest.mark.parametrize("by", ["node", "connection"])
async def test_kick_of_a_pending_play2_leaves_the_current_stream_playing(
    app: ScriptedApp, stage: Stage, by: str
) -> None:
    camera, viewer = await stage.camera("old"), await stage.viewer("old")
    await viewer.switch("nobody")
    stop = {"session_id": stage.plays[1], "reason": "kicked"}
    if by == "node":
        await app.node.send({"type": "node.drop", **stop})
    else:
        stream_stop = {"type": "rtmp.stream.stop", "stream_id": viewer.stream_id, **stop}
        await app.connections[-1].send(stream_stop | {"session_id": "publish-1"})  # Another connection's: nothing.
        await app.connections[-1].send(stream_stop)
    await viewer.status("NetStream.Play.Failed")
    await viewer.sees(camera)
    assert ends(app) == ["kicked"]


@pytest.mark.parametrize("reason", ["kicked", "too_slow"])
async def test_kick_before_the_play2_decision_ends_the_new_play_but_slowness_does_not(
    app: ScriptedApp, stage: Stage, reason: str
) -> None:
    """That holds for what was to take its place, too. Who was too slow for it may have asked for something smaller."""
    answers: list[Message] = []

    async def decide(instance: Instance, event: Message) -> Message | None:
        answer = await app.accept_play(instance, event)
        if event["name"] != "new":
            return answer
        answers.append(answer)
        return None

    app.on["rtmp.play"] = decide
    camera, viewer = await stage.camera("old"), await stage.viewer("old")
    new = await stage.camera("new")
    await new.send(key=True)
    other_id = await viewer.create_stream()
    viewer.protocol.play(other_id, "old")
    await viewer.flush()
    await app.wait_until(lambda: len(stage.plays) == 2)
    await play2(viewer, "new")
    await app.wait_until(lambda: bool(answers))
    instance = app.connections[1]
    await instance.send({"type": "rtmp.stream.stop", "stream_id": viewer.stream_id, "reason": reason})
    await app.wait_until(lambda: len(ends(app)) == 1)
    await instance.send(answers[0])
    if reason == "kicked":
        await app.wait_until(lambda: len(ends(app)) == 2)
        assert set(ends(app)) == {"kicked"}
        await viewer.sees(camera)
        streams = {event.stream_id for event in viewer.of(events.VideoReceived) if len(event.payload) > 60}
        assert viewer.codes.count("NetStream.Play.Failed") == 2
        assert streams == {other_id}, "the other one goes on"
    else:
        await viewer.picture(new.key_frame)
        assert ends(app) == ["too_slow"]


async def test_old_play_that_ends_during_a_pending_play2_is_followed_by_the_new(stage: Stage) -> None:
    old = await stage.camera("old", begins_at=90_000)
    new = await stage.camera("new", begins_at=1000, avc=OTHER_HEADER)
    viewer = await stage.viewer("old", -1000.0, 80.0)
    await viewer.switch("new")
    await old.send(key=True, count=4)
    await viewer.play_status(COMPLETE)
    await new.send(count=1)
    await new.send(key=True)
    await viewer.picture(OTHER_HEADER)
    await viewer.wait_until(lambda: viewer.video[-1] == new.key_frame)
    assert "NetStream.Play.Stop" not in viewer.codes
    assert viewer.times == sorted(viewer.times)
    assert viewer.times[-1] < 95_000


async def test_play2_to_an_audio_only_stream_switches_at_its_first_sound(stage: Stage) -> None:
    publisher = await stage.client()
    stream_id = await publisher.publish("radio")
    old, viewer = await stage.camera("old"), await stage.viewer("old")
    await viewer.hears(old)
    await viewer.switch("radio")
    await publisher.send_audio(stream_id, 5000, sound(77))
    await viewer.play_status(COMPLETE)
    assert (await viewer.hear(77)).timestamp < 1000


async def test_pause_and_receive_audio_false_persist_over_a_play2(stage: Stage) -> None:
    old, new = await stage.camera("old"), await stage.camera("new", avc=OTHER_HEADER)
    viewer = await stage.viewer("old")
    await viewer.hears(old)
    await viewer.ask("receiveAudio", False)
    await viewer.ask("pause", True, 0.0)
    await viewer.switch("new")
    await new.send(key=True)
    await viewer.play_status(COMPLETE)
    await viewer.unpause()
    await new.send(key=True)
    await viewer.picture(key_frame(2))
    assert key_frame(1) not in viewer.video[2:]
    assert OTHER_HEADER in viewer.video
    heard = [event.payload for event in viewer.of(events.AudioReceived)]
    assert [each for each in heard if each != AAC_HEADER] == [sound(1)]


async def test_a_duration_counts_from_the_switch(stage: Stage) -> None:
    old, new = await stage.camera("old"), await stage.camera("new")
    viewer = await stage.viewer("old")
    await viewer.hears(old)
    await viewer.switch("new", len=80.0)
    await new.send(key=True, count=4)
    await viewer.status("NetStream.Play.Stop")
    assert viewer.video[-2:] == [key_frame(1), viewer.video[-1]]
    assert len(viewer.video) == 5


@pytest.mark.parametrize("transition", ["append", "reset", "stop"])
async def test_play2_transitions_append_reset_and_stop_take_effect(
    app: ScriptedApp, stage: Stage, transition: str
) -> None:
    await stage.camera("old")
    new, viewer = await stage.camera("new"), await stage.viewer("old")
    await play2(viewer, "new", transition)
    if transition == "reset":
        await viewer.status("NetStream.Play.Reset")
        await viewer.sees(new)
    elif transition == "stop":
        await viewer.status("NetStream.Play.Stop")
    else:
        await viewer.ask("play2", {"streamName": "old", "transition": "stop"})
        await viewer.status("NetStream.Play.Stop")
    if transition != "append":
        await app.wait_until(lambda: bool(ends(app)))
        assert ends(app) == ["client_unpublish"]
