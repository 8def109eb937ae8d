"""What players of a recording are sent, through a socket (RTMP 1.0, section 7.2.2.1)."""

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from ingest.rtmp import events
from ingest.server import RtmpServer
from tests.rtmp_client import AUDIO, VIDEO
from tests.server.app import ScriptedApp
from tests.server.clients import Made, Viewer, publishing
from tests.server.conftest import Serve
from tests.server.media import AAC_HEADER, AVC_HEADER, key_frame, sound
from tests.server.recorded.conftest import CLIP, made, record, write
from tests.server.waiting import becomes

MIB = 1024 * 1024

pytestmark = pytest.mark.usefixtures("clip")


async def test_whole_recording_is_played_with_metadata_and_completion_status(viewer: Viewer, app: ScriptedApp) -> None:
    await viewer.watch_all()
    assert viewer.media() == CLIP
    assert viewer.story() == [
        *("STREAM_IS_RECORDED", "STREAM_BEGIN", "NetStream.Play.Start", "|RtmpSampleAccess", "onMetaData", "media"),
        *("STREAM_EOF", "NetStream.Play.Complete", "NetStream.Play.Stop"),
    ]
    data = {event.name: event.values[0] for event in viewer.of(events.DataReceived)}
    await viewer.close()
    stopped = await app.event("rtmp.stop")
    assert data["onMetaData"] == {"width": 640.0, "duration": 4.907}
    totals = stopped["totals"]
    complete = {"level": "status", "code": "NetStream.Play.Complete", "duration": 4.907}
    assert data["onPlayStatus"] == {**complete, "bytes": float(totals["bytes_out"])}
    assert stopped["reason"] == "completed"
    assert (totals["video_frames"], totals["audio_frames"], totals["keyframes"]) == (50, 50, 5)
    payloads = sum(len(payload) for *_, payload in CLIP)
    assert payloads < totals["bytes_out"] < payloads + 5 * len(CLIP), "headers are compressed"


@pytest.mark.parametrize(
    ("start", "duration", "pictures", "sounds"),
    [
        (2500, -1, range(2000, 5000, 100), range(2507, 5000, 100)),
        (2000, 1000, range(2000, 3000, 100), range(2007, 3000, 100)),
        (2500, 1000, range(2000, 3500, 100), range(2507, 3500, 100)),
        (4907, -1, range(4000, 5000, 100), [4907]),
        (2500, 0, [2000], []),
        (4999, 0, [4000], []),
        (-2, -1, range(0, 5000, 100), range(7, 5000, 100)),
    ],
)
async def test_play_start_and_duration_select_the_part_that_is_sent(
    viewer: Viewer, start: float, duration: float, pictures: Iterable[int], sounds: Iterable[int]
) -> None:
    """The pictures from the keyframe on, the sound from the start on; timestamps count from there."""
    await viewer.watch_all(start=start, duration=duration)
    media = viewer.media()
    assert media[:2] == [(VIDEO, 0, AVC_HEADER), (AUDIO, 0, AAC_HEADER)]
    wanted = {VIDEO: set(pictures), AUDIO: set(sounds)}
    zero = max(start, 0)
    assert media[2:] == [(kind, max(at - zero, 0), payload) for kind, at, payload in CLIP[2:] if at in wanted[kind]]


async def test_play_start_beyond_the_end_completes_without_media(viewer: Viewer, app: ScriptedApp) -> None:
    await viewer.watch_all(start=4908)
    assert viewer.media() == []
    await viewer.close()
    assert (await app.event("rtmp.stop"))["reason"] == "completed"


async def test_play_start_and_duration_use_the_applications_unit(viewer: Viewer, app: ScriptedApp, clip: Path) -> None:
    record(app, clip, start_unit="s")
    await viewer.watch_all(start=2.5, duration=1)
    times = [at for _, at, _ in viewer.media()]
    assert (times[0], times[-1]) == (0, 907)


async def test_play_restricted_to_the_recording_does_not_get_the_live_stream(
    port: int, viewer: Viewer, app: ScriptedApp, clip: Path
) -> None:
    async with publishing(port, AVC_HEADER, key_frame(77), name="clip"):
        app.change(
            "rtmp.play", recording={"recording": 1, "name": "clip", "file": str(clip), "duration_ms": 0, "alone": True}
        )
        await viewer.watch_all(start=-2)
        assert "STREAM_IS_RECORDED" in viewer.story()
        assert key_frame(77) not in [payload for _, _, payload in viewer.media()]


async def test_play_without_a_start_prefers_the_live_stream(port: int, viewer: Viewer) -> None:
    await viewer.watch_all(start=-2)
    async with publishing(port, AVC_HEADER, key_frame(77), name="clip"), Viewer(port=port) as late:
        await late.watch(start=-2)
        await late.wait_count(events.VideoReceived, 2)
        assert late.media()[1][2] == key_frame(77)
        assert "STREAM_IS_RECORDED" not in late.story()


@pytest.mark.parametrize(("is_there", "start"), [(False, -2), (True, -1)], ids=["no recording", "live alone"])
async def test_play_live_only_or_without_a_recording_waits_for_the_publisher(
    port: int, viewer: Viewer, app: ScriptedApp, is_there: bool, start: float
) -> None:
    if not is_there:
        app.change("rtmp.play", recording=None)
    await viewer.watch(start=start)
    await viewer.status("NetStream.Play.Start")
    async with publishing(port, key_frame(77), name="clip"):
        await viewer.wait_count(events.VideoReceived, 1)
    assert [payload for *_, payload in viewer.media()] == [key_frame(77)]


async def test_live_stream_and_recording_on_one_connection_arrive_intact(
    port: int, app: ScriptedApp, tmp_path: Path
) -> None:
    """Shared bytes come between the chunks of a recording's long frames: each is read as it was sent."""
    long = made(3, gop_ms=500, key_bytes=300_000)
    clip = write(tmp_path / "clip.flv", long)

    async def decide(instance: Any, event: Any) -> Any:
        found = {"recording": 1, "name": "clip", "file": str(clip), "duration_ms": 0}
        answer = await app.accept_play(instance, event)
        return {**answer, "recording": found if event["name"] == "clip" else None}

    app.on["rtmp.play"] = decide
    frames = [key_frame(number, 5000) for number in range(200)]
    async with publishing(port, AVC_HEADER, name="cam") as (publisher, source), Viewer(port=port) as viewer:
        await viewer.watch("cam", start=-1)
        await viewer.status("NetStream.Play.Start")
        live = viewer.stream_id
        viewer.stream_id = await viewer.create_stream()
        viewer.protocol.play(viewer.stream_id, "clip", 0)
        await viewer.hurry()
        for number, frame in enumerate(frames):
            await publisher.send_video(source, number * 10, frame)
            await asyncio.sleep(0)
        await viewer.until_over(timeout_s=10)
        await viewer.wait_count(events.VideoReceived, len(frames) + 1 + sum(kind == VIDEO for kind, *_ in long))
        by_stream = {live: [], viewer.stream_id: []}  # type: dict[int, list[bytes]]
        for event in viewer.of(events.VideoReceived):
            by_stream[event.stream_id].append(event.payload)
        assert by_stream[live] == [AVC_HEADER, *frames]
        assert by_stream[viewer.stream_id] == [payload for kind, _, payload in long if kind == VIDEO]


@pytest.mark.parametrize("buffer_ms", [None, 1000, 20_000])
async def test_recording_is_sent_ahead_by_the_buffer_length_then_in_real_time(
    viewer: Viewer, app: ScriptedApp, tmp_path: Path, buffer_ms: int | None
) -> None:
    """As much as the client wants, and then as time goes on."""
    record(app, write(tmp_path / "clip.flv", made(60)))
    ahead = buffer_ms or 3000
    asked = asyncio.get_running_loop().time()
    await viewer.watch(buffer_ms=buffer_ms)
    began = (await viewer.wait_for(events.AudioReceived), asyncio.get_running_loop().time())[1]
    await viewer.wait_until(lambda: viewer.media()[-1][1] >= ahead - 100)
    first_s = asyncio.get_running_loop().time() - began
    await viewer.wait_until(lambda: viewer.media()[-1][1] > ahead + 400)
    # The server began after it was asked, and before the first message had come.
    sent_ms, passed_ms = viewer.media()[-1][1], (asyncio.get_running_loop().time() - asked) * 1000
    if ahead > 1000:  # A machine may be busy for a second.
        assert first_s < 0.9 * ahead / 1000
    assert sent_ms <= ahead + passed_ms + 50
    assert "NetStream.Play.Stop" not in viewer.story()


async def test_buffer_length_set_before_the_play_is_used(viewer: Viewer, app: ScriptedApp, tmp_path: Path) -> None:
    record(app, write(tmp_path / "clip.flv", made(60)))
    await viewer.connect("live")
    viewer.stream_id = await viewer.create_stream()
    viewer.protocol.set_buffer_length(viewer.stream_id, 36_000_000)
    viewer.protocol.play(viewer.stream_id, "clip", 0)
    await viewer.flush()
    await viewer.until_over()


async def test_control_comes_between_the_chunks_of_a_long_frame(
    server: RtmpServer, viewer: Viewer, app: ScriptedApp, tmp_path: Path
) -> None:
    """And so does sound: a frame of 8 MiB takes more than the kernel's buffers hold."""
    record(app, write(tmp_path / "clip.flv", made(1, key_bytes=8 * MIB)))
    seen: list[str] = []
    viewer.listener = lambda event: seen.append(type(event).__name__)
    await viewer.connect("live")
    viewer.stream_id = await viewer.create_stream()
    viewer.protocol.play(viewer.stream_id, "clip", 0)
    await viewer.hurry()
    await viewer.status("NetStream.Play.Start")
    viewer.pause_reading()
    connection: Any = next(iter(server.connections))
    await becomes(lambda: connection.outlet.is_full)
    after = viewer.protocol.create_stream()
    await viewer.flush()
    viewer.resume_reading()
    await viewer.wait_for(events.ResultReceived, lambda event: event.transaction == after)
    assert not any(len(event.payload) > MIB for event in viewer.of(events.VideoReceived))
    await viewer.until_over()
    kinds = [kind for kind, _, payload in viewer.media() if kind == AUDIO or len(payload) > MIB]
    assert kinds[:3] == [AUDIO, AUDIO, VIDEO]  # The header, the sound that stands behind the frame, the frame.
    assert sorted(viewer.media()) == sorted(made(1, key_bytes=8 * MIB))


async def test_memory_held_for_a_recording_player_that_reads_nothing_is_bounded(
    serve: Serve, app: ScriptedApp, tmp_path: Path
) -> None:
    server = await serve(write_s=60.0)
    record(app, write(tmp_path / "clip.flv", made(120, fps=20, key_bytes=100_000)))
    async with Viewer(port=server.addresses[0][1]) as viewer:
        await viewer.watch()
        await viewer.wait_for(events.VideoReceived)
        viewer.pause_reading()
        connection: Any = next(iter(server.connections))
        await becomes(lambda: connection.outlet.is_full)
        session: Any = next(iter(server.sessions.values()))
        held = [0]
        for _ in range(20):
            await asyncio.sleep(0.02)
            queued = session.queue.queued_bytes + session.queue.chunk_lane.waiting_bytes
            held.append(queued + connection.transport.get_write_buffer_size())
        assert max(held) < MIB
        viewer.resume_reading()
        await viewer.until_over(timeout_s=30)


async def test_recording_files_are_closed_when_their_players_leave(port: int, app: ScriptedApp, clip: Path) -> None:
    def open_files() -> int:
        return sum(os.path.realpath(f"/proc/self/fd/{name}") == str(clip) for name in os.listdir("/proc/self/fd"))

    viewers = [Viewer(port=port) for _ in range(4)]
    for viewer in viewers:
        await viewer.open()
        await viewer.begin(500)
    assert open_files() == 4
    await viewers[0].delete_stream(viewers[0].stream_id)
    await viewers[1].ask("closeStream")
    viewers[2].abort()
    await becomes(lambda: open_files() == 1)
    await viewers[3].close()
    await becomes(lambda: open_files() == 0)
    reasons = {instance.of("rtmp.stop")[0]["reason"] for instance in app.connections}
    assert reasons <= {"client_unpublish", "tcp_reset"}
    for viewer in viewers:
        await viewer.close()


async def test_recording_player_is_counted_in_the_nodes_figures(viewer: Viewer, app: ScriptedApp) -> None:
    await viewer.begin(500)
    await app.wait_until(lambda: any(each["out_bytes"] for tick in app.ticks for each in tick["players"]))
    tick = next(tick for tick in app.ticks if any(each["out_bytes"] for each in tick["players"]))
    assert tick["players"][0]["path"] == "live/clip"
    assert tick["figures"]["players"] == 1
    assert tick["figures"]["out_kbps"] > 0


async def test_recording_play_ended_by_an_operator_is_reported_as_kicked(viewer: Viewer, app: ScriptedApp) -> None:
    await viewer.begin(500)
    await app.connections[0].send({"type": "rtmp.close", "reason": "kicked"})
    await viewer.status("NetStream.Play.Failed")
    await viewer.close()
    assert (await app.event("rtmp.stop"))["reason"] == "kicked"


async def test_playlist_of_recordings_plays_item_after_item(viewer: Viewer, app: ScriptedApp) -> None:
    """Item after item, each with its own end; Play.Stop after the last."""
    await viewer.watch(duration=1000)
    viewer.protocol.play(viewer.stream_id, "clip", 2000, 1000, reset=False)
    await viewer.flush()
    await viewer.until_over()
    times = [at for kind, at, _ in viewer.media() if kind == VIDEO]
    assert times == [0, *range(0, 1000, 100), 0, *range(0, 1000, 100)]
    assert viewer.story().count("NetStream.Play.Start") == 2
    await viewer.close()
    await app.event("rtmp.disconnect")
    assert [event["reason"] for event in app.connections[0].of("rtmp.stop")] == ["completed", "completed"]


OTHER_HEADER = bytes.fromhex("960061766331 01") + b"header"
OTHER_SOUND = bytes.fromhex("95014f707573 01") + b"sound"
EXTENDED = bytes.fromhex("a7 020003e801 61766331 000000") + b"picture"
PLAIN = bytes.fromhex("a1 61766331 000000") + b"picture"

FILE: Made = [
    (VIDEO, 0, AVC_HEADER),
    (VIDEO, 0, OTHER_HEADER),
    (AUDIO, 0, AAC_HEADER),
    (VIDEO, 0, key_frame(0)),
    (AUDIO, 7, sound(0)),
    (AUDIO, 7, OTHER_SOUND),
    (VIDEO, 40, EXTENDED),
    (VIDEO, 2000, key_frame(1)),
    (AUDIO, 2007, sound(1)),
]


FROM_2000 = [AVC_HEADER, OTHER_HEADER, AAC_HEADER, key_frame(1), sound(1)]


@pytest.mark.parametrize(
    ("start", "sent"), [(0, [payload for _, _, payload in FILE]), (2000, FROM_2000)], ids=["all", "a part"]
)
@pytest.mark.parametrize("caps_ex", [0, 15])
async def test_tracks_and_extensions_are_sent_only_to_players_with_caps_ex(
    app: ScriptedApp, viewer: Viewer, tmp_path: Path, caps_ex: int, start: int, sent: list[bytes]
) -> None:
    record(app, write(tmp_path / "clip.flv", FILE))
    await viewer.connect("live", capsEx=caps_ex)
    viewer.stream_id = await viewer.create_stream()
    viewer.protocol.play(viewer.stream_id, "clip", start, -1)
    await viewer.finish()
    got = [payload for _, _, payload in viewer.media()]
    if not caps_ex:
        plain = [PLAIN if payload == EXTENDED else payload for payload in sent]
        sent = [payload for payload in plain if payload not in (OTHER_HEADER, OTHER_SOUND)]
    assert got == sent
