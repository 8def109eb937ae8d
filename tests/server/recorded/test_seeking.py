"""What a client asks of a recording (sections 7.2.2.4 to 8): seek, pause, receiveAudio, receiveVideo."""

import asyncio
from pathlib import Path

import pytest

from ingest.rtmp import events
from tests.rtmp_client import AUDIO, VIDEO
from tests.server.app import ScriptedApp
from tests.server.clients import Made, Viewer
from tests.server.conftest import Serve
from tests.server.media import AAC_HEADER, AVC_HEADER
from tests.server.recorded.conftest import made, record, write

CLIP = made(60)
JUMP = ["NetStream.Seek.Notify", "STREAM_IS_RECORDED", "STREAM_BEGIN", "NetStream.Play.Start"]
QUIET_S = 0.3


@pytest.fixture(autouse=True)
def clip(app: ScriptedApp, tmp_path: Path) -> None:
    record(app, write(tmp_path / "clip.flv", CLIP))


async def begun(viewer: Viewer, **asked: float) -> None:
    """It plays, and has what it wants to have ahead: a second."""
    await viewer.watch(buffer_ms=1000, **asked)  # type: ignore[arg-type]
    await viewer.wait_for(events.VideoReceived, lambda event: event.timestamp >= 800)


def since(time_ms: int) -> Made:
    return [message for message in CLIP[2:] if message[1] >= time_ms]


def headers(time_ms: int) -> Made:
    return [(VIDEO, time_ms, AVC_HEADER), (AUDIO, time_ms, AAC_HEADER)]


# --- seek ---


@pytest.mark.parametrize(("to", "first"), [(30_500, 30_000), (0, 0), (59_907, 59_000), (200, 0)])
async def test_seek_resumes_at_the_keyframe_before_with_headers_first(viewer: Viewer, to: int, first: int) -> None:
    """From the keyframe at or before it on, headers first; nothing from before comes after Seek.Notify."""
    await begun(viewer)
    after = await viewer.ask("seek", float(to))
    await viewer.finish(after=after)
    story = viewer.story(after)
    assert [word for word in story if word != "media"][:5] == ["STREAM_EOF", *JUMP]
    notified = viewer.received.index(await viewer.status("NetStream.Seek.Notify"))
    assert viewer.media(notified) == [*headers(first), *since(first)]


@pytest.mark.parametrize("to", [-1, 59_908, 1e300])
async def test_seek_outside_the_recording_fails_and_playback_goes_on(viewer: Viewer, to: float) -> None:
    """It plays on."""
    await begun(viewer)
    await viewer.ask("seek", float(to))
    status = await viewer.status("NetStream.Seek.InvalidTime")
    assert (status.level, status.description) == ("error", "The recording has 59.907 s.")
    await viewer.finish()
    assert viewer.media() == CLIP


async def test_seek_sent_together_with_the_play_takes_effect(viewer: Viewer) -> None:
    await viewer.connect("live")
    viewer.stream_id = await viewer.create_stream()
    viewer.protocol.play(viewer.stream_id, "clip", 0)
    viewer.protocol.send_command(viewer.stream_id, "seek", 0, None, 40_000.0)
    await viewer.finish()
    assert viewer.media()[-len(since(40_000)) :] == since(40_000)
    assert "NetStream.Seek.Notify" in viewer.story()


async def test_many_seeks_end_where_the_last_one_led(viewer: Viewer) -> None:
    await begun(viewer)
    for to in range(1000, 51_000, 500):
        viewer.protocol.send_command(viewer.stream_id, "seek", 0, None, float(to))
    after = await viewer.ask("seek", 50_000.0)
    await viewer.finish(after=after)
    assert viewer.media()[-len(since(50_000)) - 2 :] == [*headers(50_000), *since(50_000)]


async def test_a_seek_stays_within_the_duration(viewer: Viewer) -> None:
    await begun(viewer, start=10_000, duration=20_000)
    after = await viewer.ask("seek", 25_000.0)
    await viewer.finish(after=after)
    assert viewer.media()[-1] == (AUDIO, 29_907, since(29_907)[0][2])


async def test_timestamps_count_from_the_start_until_a_successful_seek(viewer: Viewer) -> None:
    """They count from the start, until a seek that leads somewhere: from then on they are the file's."""
    await begun(viewer, start=10_000)
    await viewer.ask("seek", 99_000.0)
    await viewer.status("NetStream.Seek.InvalidTime")
    after = len(viewer.received)
    later = await viewer.wait_for(events.VideoReceived, after=after)
    assert later.timestamp < 9000
    await viewer.ask("seek", 40_000.0)
    await viewer.finish()
    notified = viewer.received.index(await viewer.status("NetStream.Seek.Notify"))
    assert viewer.media(notified) == [*headers(40_000), *since(40_000)]


# --- pause ---


async def test_pause_sends_nothing_and_unpause_continues_without_loss(viewer: Viewer) -> None:
    """Nothing comes behind Pause.Notify; unpaused, it goes on where it was."""
    await begun(viewer)
    await viewer.ask("pause", True, 500.0)
    paused = viewer.received.index(await viewer.status("NetStream.Pause.Notify"))
    await asyncio.sleep(QUIET_S)
    assert viewer.media(paused) == []
    await viewer.ask("pause", False, 500.0)
    await viewer.finish()
    assert "NetStream.Unpause.Notify" in viewer.story(paused)
    assert viewer.media() == CLIP


async def test_paused_time_does_not_increase_what_is_sent_ahead(viewer: Viewer) -> None:
    """What is sent ahead stays what the client asked for."""
    loop = asyncio.get_running_loop()
    asked = loop.time()
    await begun(viewer)
    await viewer.ask("pause", True, 500.0)
    await viewer.status("NetStream.Pause.Notify")
    paused = loop.time()
    await asyncio.sleep(1)
    paused_s = loop.time() - paused
    await viewer.ask("pause", False, 500.0)
    await viewer.status("NetStream.Unpause.Notify")
    after = len(viewer.received)
    await viewer.wait_for(events.VideoReceived, after=after)
    sent_ms, played_s = viewer.media()[-1][1], loop.time() - asked - paused_s
    assert sent_ms <= 1000 + played_s * 1000 + 50


async def test_unpause_with_another_position_resumes_there_at_a_keyframe(viewer: Viewer) -> None:
    await begun(viewer)
    await viewer.ask("pause", True, 500.0)
    await viewer.ask("pause", False, 40_300.0)
    await viewer.hurry()
    unpaused = viewer.received.index(await viewer.status("NetStream.Unpause.Notify"))
    await viewer.until_over()
    assert viewer.media(unpaused) == [*headers(40_000), *since(40_000)]


async def test_seek_during_a_pause_sends_media_only_after_the_unpause(viewer: Viewer) -> None:
    await begun(viewer)
    await viewer.ask("pause", True, 500.0)
    await viewer.ask("seek", 40_000.0)
    sought = viewer.received.index(await viewer.status("NetStream.Play.Start", after=len(viewer.received)))
    await asyncio.sleep(QUIET_S)
    assert viewer.media(sought) == []
    await viewer.ask("pause", False, 40_000.0)
    await viewer.finish()
    assert viewer.media(sought) == [*headers(40_000), *since(40_000)]


# --- receiveAudio, receiveVideo ---


async def test_receive_audio_false_sends_all_pictures_and_no_sound(viewer: Viewer) -> None:
    await begun(viewer)
    await viewer.ask("receiveAudio", False)
    await viewer.ask("receiveVideo", True)  # Answered, so what came before is done.
    at = viewer.received.index(await viewer.status("NetStream.Seek.Notify"))
    await viewer.finish()
    later = viewer.media(at)
    assert {kind for kind, *_ in later} == {VIDEO}
    pictures = [message for message in viewer.media() if message[0] == VIDEO]
    assert pictures == [message for message in CLIP if message[0] == VIDEO]


async def test_receive_audio_true_resumes_sound_where_the_pictures_are(viewer: Viewer) -> None:
    """From where the pictures are on; no picture comes twice."""
    await begun(viewer)
    await viewer.ask("receiveAudio", False)
    await viewer.wait_for(events.VideoReceived, lambda event: event.timestamp >= 1500)
    after = await viewer.ask("receiveAudio", True)
    await viewer.finish()
    assert viewer.story(after)[:2] != []
    assert [word for word in viewer.story(after) if word != "media"][:4] == JUMP
    pictures = [message for message in viewer.media() if message[0] == VIDEO and message[2] != AVC_HEADER]
    assert pictures == [message for message in CLIP if message[0] == VIDEO and message[2] != AVC_HEADER]
    notified = viewer.received.index(await viewer.status("NetStream.Seek.Notify", after=after))
    shown = [event.timestamp for event in viewer.received[:notified] if isinstance(event, events.VideoReceived)]
    sounds = [at for kind, at, payload in viewer.media(after) if kind == AUDIO and payload != AAC_HEADER]
    assert shown[-1] <= sounds[0] <= shown[-1] + 200
    assert sounds[-1] == 59_907


async def test_receive_video_true_resumes_pictures_at_a_keyframe(viewer: Viewer) -> None:
    """From a keyframe on, at the time that the sound has reached; no sound comes twice."""
    await begun(viewer)
    await viewer.ask("receiveVideo", False)
    await viewer.wait_for(events.AudioReceived, lambda event: event.timestamp >= 1500)
    after = await viewer.ask("receiveVideo", True)
    await viewer.finish()
    notified = viewer.received.index(await viewer.status("NetStream.Seek.Notify", after=after))
    later = viewer.media(notified)
    pictures = [(at, payload) for kind, at, payload in later if kind == VIDEO]
    assert pictures[0][1] == AVC_HEADER
    assert pictures[1][1].startswith(b"\x17\x01")
    times = [at for _, at, _ in later]
    assert times == sorted(times)
    sounds = [message for message in viewer.media() if message[0] == AUDIO and message[2] != AAC_HEADER]
    assert sounds == [message for message in CLIP if message[0] == AUDIO and message[2] != AAC_HEADER]


END = ["STREAM_EOF", "NetStream.Play.Complete", "NetStream.Play.Stop"]


async def test_seek_back_after_the_end_plays_the_recording_again(viewer: Viewer, app: ScriptedApp) -> None:
    await viewer.watch_all()
    after = await viewer.ask("seek", 3000.0)
    await viewer.until_over(after=after)
    assert viewer.story(after) == ["STREAM_EOF", *JUMP, "media", *END]
    pictures = [at for kind, at, _ in viewer.media(after) if kind == VIDEO]
    assert pictures == [3000, *range(3000, 60_000, 100)]
    assert not app.connections[0].of("rtmp.stop"), "it may go back once more"
    await viewer.close()
    assert (await app.event("rtmp.stop"))["reason"] == "completed"
    assert (await app.event("rtmp.disconnect"))["reason"] == "client_unpublish"


async def test_pause_after_the_end_sends_nothing_and_a_seek_still_works(viewer: Viewer) -> None:
    """What it has it plays on; nothing is sent again, and it isn't told of the end again."""
    await viewer.watch_all()
    after = await viewer.ask("pause", True, 1000.0)
    await viewer.ask("pause", False, 1000.0)
    await viewer.status("NetStream.Unpause.Notify", after=after)
    await viewer.ask("seek", 4000.0)
    await viewer.until_over(after=after)
    assert viewer.story(after)[:2] == ["NetStream.Pause.Notify", "NetStream.Unpause.Notify"]
    assert viewer.story(after)[2:7] == ["STREAM_EOF", *JUMP]


@pytest.mark.parametrize("command", ["closeStream", "deleteStream"])
async def test_player_that_leaves_after_the_end_is_reported_as_completed(
    viewer: Viewer, app: ScriptedApp, command: str
) -> None:
    await viewer.watch_all()
    viewer.protocol.send_command(viewer.stream_id, command, 0, None, *([viewer.stream_id] if command[0] == "d" else []))
    await viewer.flush()
    stopped = await app.event("rtmp.stop")
    assert (stopped["reason"], stopped["description"]) == ("completed", "All that was to be played has been sent.")


async def test_new_play_after_the_end_works_with_and_without_reset(viewer: Viewer, app: ScriptedApp) -> None:
    await viewer.watch_all()
    for reset in (True, False):
        after = len(viewer.received)
        viewer.protocol.play(viewer.stream_id, "clip", 2000, 1000, reset=reset)
        await viewer.flush()
        await viewer.until_over(after=after)
        assert ("NetStream.Play.Reset" in viewer.story(after)) == reset
        assert [at for kind, at, _ in viewer.media(after) if kind == VIDEO] == [0, *range(0, 1000, 100)]
    await viewer.close()
    await app.event("rtmp.disconnect")
    assert [event["reason"] for event in app.connections[0].of("rtmp.stop")] == ["completed"] * 3


async def test_finished_play_ends_after_the_seek_back_time_and_seeks_then_fail(
    serve: Serve, app: ScriptedApp, tmp_path: Path
) -> None:
    record(app, write(tmp_path / "short.flv", made(0.5)))
    server = await serve(back_s=0.3)
    async with Viewer(port=server.addresses[0][1]) as viewer:
        await viewer.watch_all()
        assert (await app.event("rtmp.stop"))["reason"] == "completed"
        assert viewer.story()[-3:] == END
        after = await viewer.ask("seek", 0.0)
        await viewer.status("NetStream.Seek.Failed", after=after)


async def test_finished_play_ended_by_an_operator_is_reported_as_kicked(viewer: Viewer, app: ScriptedApp) -> None:
    await viewer.watch_all()
    await app.connections[0].send({"type": "rtmp.close", "reason": "kicked"})
    assert (await app.event("rtmp.stop"))["reason"] == "kicked"
