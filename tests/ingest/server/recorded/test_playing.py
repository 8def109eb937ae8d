"""What players of a recording are sent, through a socket (RTMP 1.0, section 7.2.2.1)."""

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from ingest.rtmp import events
from ingest.server import RtmpServer
from tests.ingest.server.app import ScriptedApplication
from tests.ingest.server.conftest import Serve
from tests.ingest.server.media import AAC_HEADER, AVC_HEADER, key_frame
from tests.ingest.server.recorded.files import AUDIO, CLIP, VIDEO, made, plays, record, write
from tests.ingest.server.recorded.viewer import Viewer
from tests.ingest.server.waiting import within
from tests.rtmp_client import Refused, RtmpClient

MIB = 1024 * 1024


@pytest.mark.usefixtures("clip")
async def test_a_whole_recording(port: int, app: ScriptedApplication) -> None:
    async with Viewer(port=port) as viewer:
        await viewer.watch()
        await viewer.until_over()
        assert viewer.media() == CLIP
        assert viewer.story() == [
            *("STREAM_IS_RECORDED", "STREAM_BEGIN", "NetStream.Play.Start", "|RtmpSampleAccess", "onMetaData", "media"),
            *("STREAM_EOF", "NetStream.Play.Complete", "NetStream.Play.Stop"),
        ]
        data = {event.name: event.values[0] for event in viewer.of(events.DataReceived)}
    stopped = await app.event("rtmp.stop")
    assert data["onMetaData"] == {"width": 640.0, "duration": 4.907}
    assert data["onPlayStatus"] == {
        "level": "status",
        "code": "NetStream.Play.Complete",
        "duration": 4.907,
        "bytes": float(stopped["totals"]["bytes_out"]),
    }
    assert stopped["reason"] == "completed"
    totals = stopped["totals"]
    assert (totals["video_frames"], totals["audio_frames"], totals["keyframes"]) == (50, 50, 5)
    payloads = sum(len(payload) for *_, payload in CLIP)
    assert payloads < totals["bytes_out"] < payloads + 12 * len(CLIP)


@pytest.mark.usefixtures("clip")
async def test_headers_are_compressed(port: int, app: ScriptedApplication) -> None:
    """Pictures and sounds of a steady size and rate: one byte each, for most of them."""
    async with Viewer(port=port) as viewer:
        await viewer.watch()
        await viewer.until_over()
    totals = (await app.event("rtmp.stop"))["totals"]
    payloads = sum(len(payload) for *_, payload in CLIP)
    assert totals["bytes_out"] - payloads < 5 * len(CLIP)


@pytest.mark.usefixtures("clip")
async def test_play_with_reset_says_so(port: int) -> None:
    async with Viewer(port=port) as viewer:
        await viewer.watch(reset=True)
        await viewer.until_over()
        assert viewer.story()[2:4] == ["NetStream.Play.Reset", "NetStream.Play.Start"]


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
@pytest.mark.usefixtures("clip")
async def test_start_and_duration(
    port: int, start: float, duration: float, pictures: Iterable[int], sounds: Iterable[int]
) -> None:
    """The pictures from the keyframe on, the sound from the start on; timestamps count from there."""
    async with Viewer(port=port) as viewer:
        await viewer.watch(start=start, duration=duration)
        await viewer.until_over()
        media = viewer.media()
    assert media[:2] == [(VIDEO, 0, AVC_HEADER), (AUDIO, 0, AAC_HEADER)]
    wanted = {VIDEO: set(pictures), AUDIO: set(sounds)}
    zero = max(start, 0)
    assert media[2:] == [(kind, max(at - zero, 0), payload) for kind, at, payload in CLIP[2:] if at in wanted[kind]]


@pytest.mark.usefixtures("clip")
async def test_a_start_beyond_the_end(port: int, app: ScriptedApplication) -> None:
    async with Viewer(port=port) as viewer:
        await viewer.watch(start=4908)
        await viewer.until_over()
        assert viewer.media() == []
    assert (await app.event("rtmp.stop"))["reason"] == "completed"


@pytest.mark.usefixtures("clip")
async def test_the_unit_of_start(port: int, app: ScriptedApplication, clip: Path) -> None:
    record(app, clip, start_unit="s")
    async with Viewer(port=port) as viewer:
        await viewer.watch(start=2.5, duration=1)
        await viewer.until_over()
        times = [at for _, at, _ in viewer.media()]
    assert (times[0], times[-1]) == (0, 907)


# --- Live or recorded ---


async def test_who_may_have_the_recording_alone_does_not_get_what_is_live(
    port: int, app: ScriptedApplication, clip: Path
) -> None:
    async with RtmpClient(port=port) as publisher, Viewer(port=port) as viewer:
        await publisher.connect("live")
        stream_id = await publisher.publish("clip")
        await publisher.send_video(stream_id, 0, AVC_HEADER)
        await publisher.send_video(stream_id, 0, key_frame(77))
        plays(app, {"recording": 1, "name": "clip", "file": str(clip), "duration_ms": 0, "alone": True})
        await viewer.watch(start=-2)
        await viewer.until_over()
        assert "STREAM_IS_RECORDED" in viewer.story()
        assert key_frame(77) not in [payload for _, _, payload in viewer.media()]


@pytest.mark.usefixtures("clip")
async def test_without_a_start_what_is_live_comes_first(port: int) -> None:
    async with RtmpClient(port=port) as publisher, Viewer(port=port) as early, Viewer(port=port) as late:
        await publisher.connect("live")
        await early.watch(start=-2)
        await early.until_over()
        stream_id = await publisher.publish("clip")
        await publisher.send_video(stream_id, 0, AVC_HEADER)
        await publisher.send_video(stream_id, 0, key_frame(77))
        await late.watch(start=-2)
        await late.wait_count(events.VideoReceived, 2)
        assert late.media()[1][2] == key_frame(77)
        assert "STREAM_IS_RECORDED" not in late.story()


async def test_without_a_recording_it_waits_for_the_live_stream(port: int, app: ScriptedApplication) -> None:
    plays(app, None)
    async with RtmpClient(port=port) as publisher, Viewer(port=port) as viewer:
        await viewer.watch(start=-2)
        await viewer.until_code("NetStream.Play.Start")
        await publisher.connect("live")
        stream_id = await publisher.publish("clip")
        await publisher.send_video(stream_id, 0, key_frame(77))
        await viewer.wait_count(events.VideoReceived, 1)


@pytest.mark.usefixtures("clip")
async def test_a_start_of_minus_one_is_live_alone(port: int) -> None:
    async with RtmpClient(port=port) as publisher, Viewer(port=port) as viewer:
        await viewer.watch(start=-1)
        await viewer.until_code("NetStream.Play.Start")
        await publisher.connect("live")
        stream_id = await publisher.publish("clip")
        await publisher.send_video(stream_id, 0, key_frame(77))
        await viewer.wait_count(events.VideoReceived, 1)
        assert [payload for *_, payload in viewer.media()] == [key_frame(77)]


async def test_a_live_stream_beside_a_recording_on_one_connection(
    port: int, app: ScriptedApplication, tmp_path: Path
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
    async with RtmpClient(port=port) as publisher, Viewer(port=port) as viewer:
        await publisher.connect("live")
        source = await publisher.publish("cam")
        await publisher.send_video(source, 0, AVC_HEADER)
        await viewer.watch("cam", start=-1)
        await viewer.until_code("NetStream.Play.Start")
        live = viewer.stream_id
        viewer.stream_id = await viewer.create_stream()
        viewer.protocol.play(viewer.stream_id, "clip", 0)
        viewer.protocol.set_buffer_length(viewer.stream_id, 36_000_000)
        await viewer.flush()
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


# --- Pace ---


@pytest.mark.parametrize("buffer_ms", [None, 1000, 20_000])
async def test_what_is_sent_ahead(port: int, app: ScriptedApplication, tmp_path: Path, buffer_ms: int | None) -> None:
    """As much as the client wants, and then as time goes on."""
    record(app, write(tmp_path / "clip.flv", made(60)))
    ahead = buffer_ms or 3000
    async with Viewer(port=port) as viewer:
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


async def test_a_longer_buffer_is_filled_at_once(port: int, app: ScriptedApplication, tmp_path: Path) -> None:
    record(app, write(tmp_path / "clip.flv", made(60)))
    async with Viewer(port=port) as viewer:
        await viewer.watch(buffer_ms=1000)
        await viewer.wait_for(events.VideoReceived)
        viewer.protocol.set_buffer_length(viewer.stream_id, 36_000_000)
        await viewer.flush()
        await viewer.until_over()


async def test_a_buffer_length_from_before_the_play(port: int, app: ScriptedApplication, tmp_path: Path) -> None:
    record(app, write(tmp_path / "clip.flv", made(60)))
    async with Viewer(port=port) as viewer:
        await viewer.connect("live")
        viewer.stream_id = await viewer.create_stream()
        viewer.protocol.set_buffer_length(viewer.stream_id, 36_000_000)
        viewer.protocol.play(viewer.stream_id, "clip", 0)
        await viewer.flush()
        await viewer.until_over()


# --- Slow players ---


async def test_control_comes_between_the_chunks_of_a_long_frame(
    serve: Serve, app: ScriptedApplication, tmp_path: Path
) -> None:
    """And so does sound: a frame of 8 MiB takes more than the kernel's buffers hold."""
    server = await serve()
    port = server.addresses[0][1]
    record(app, write(tmp_path / "clip.flv", made(1, key_bytes=8 * MIB)))
    async with Viewer(port=port) as viewer:
        seen: list[str] = []
        viewer.listener = lambda event: seen.append(type(event).__name__)
        await viewer.connect("live")
        viewer.stream_id = await viewer.create_stream()
        viewer.protocol.play(viewer.stream_id, "clip", 0)
        viewer.protocol.set_buffer_length(viewer.stream_id, 36_000_000)
        await viewer.flush()
        await viewer.until_code("NetStream.Play.Start")
        viewer.pause_reading()
        connection: Any = next(iter(server.connections))
        assert await within(5, lambda: _is_full(connection), True)
        after = viewer.protocol.create_stream()
        await viewer.flush()
        viewer.resume_reading()
        await viewer.wait_for(events.ResultReceived, lambda event: event.transaction == after)
        assert not any(len(event.payload) > MIB for event in viewer.of(events.VideoReceived))
        await viewer.until_over()
        kinds = [kind for kind, _, payload in viewer.media() if kind == AUDIO or len(payload) > MIB]
        assert kinds[:3] == [AUDIO, AUDIO, VIDEO]  # The header, the sound that stands behind the frame, the frame.
        assert sorted(viewer.media()) == sorted(made(1, key_bytes=8 * MIB))


async def _is_full(connection: Any) -> bool:
    return bool(connection.outlet.is_full)


async def test_what_is_kept_for_a_player_that_does_not_read(
    serve: Serve, app: ScriptedApplication, tmp_path: Path
) -> None:
    server = await serve(write_s=60.0)
    record(app, write(tmp_path / "clip.flv", made(120, fps=20, key_bytes=100_000)))
    async with Viewer(port=server.addresses[0][1]) as viewer:
        await viewer.watch()
        await viewer.wait_for(events.VideoReceived)
        viewer.pause_reading()
        connection: Any = next(iter(server.connections))
        assert await within(5, lambda: _is_full(connection), True)
        session = next(iter(server.sessions.values()))
        held = [0]
        for _ in range(20):
            await asyncio.sleep(0.02)
            kept: Any = session
            held.append(
                kept.queue.queued_bytes
                + kept.queue.chunk_lane.waiting_bytes
                + connection.transport.get_write_buffer_size()
            )
        assert max(held) < MIB
        viewer.resume_reading()
        await viewer.until_over(timeout_s=30)


# --- The rest of the session ---


async def test_files_are_closed(server: RtmpServer, port: int, app: ScriptedApplication, clip: Path) -> None:
    def open_files() -> int:
        return sum(os.path.realpath(f"/proc/self/fd/{name}") == str(clip) for name in os.listdir("/proc/self/fd"))

    async def count() -> int:
        return open_files()

    viewers = [Viewer(port=port) for _ in range(4)]
    for viewer in viewers:
        await viewer.open()
        await viewer.watch(buffer_ms=500)
        await viewer.wait_for(events.VideoReceived)
    assert await count() == 4
    await viewers[0].delete_stream(viewers[0].stream_id)
    await viewers[1].command("closeStream")
    viewers[2].abort()
    assert await within(5, count, 1) == 1
    await viewers[3].close()
    assert await within(5, count, 0) == 0
    reasons = {instance.of("rtmp.stop")[0]["reason"] for instance in app.connections}
    assert reasons <= {"client_unpublish", "tcp_reset"}
    for viewer in viewers:
        await viewer.close()


@pytest.mark.usefixtures("clip")
async def test_the_nodes_figures(port: int, app: ScriptedApplication) -> None:
    async with Viewer(port=port) as viewer:
        await viewer.watch(buffer_ms=500)
        await viewer.wait_for(events.VideoReceived)

        def ticks() -> list[Any]:
            return [tick for tick in app.node.of("node.tick") if any(each["out_bytes"] for each in tick["players"])]

        await app.wait_until(lambda: bool(ticks()))
        tick = ticks()[0]
        assert tick["players"][0]["path"] == "live/clip"
        assert tick["figures"]["players"] == 1
        assert tick["figures"]["out_kbps"] > 0


@pytest.mark.usefixtures("clip")
async def test_an_operator_ends_it(port: int, app: ScriptedApplication) -> None:
    async with Viewer(port=port) as viewer:
        await viewer.watch(buffer_ms=500)
        await viewer.wait_for(events.VideoReceived)
        await app.connections[0].send({"type": "rtmp.close", "reason": "kicked"})
        await viewer.until_code("NetStream.Play.Failed")
    assert (await app.event("rtmp.stop"))["reason"] == "kicked"


async def test_a_refusal(port: int, app: ScriptedApplication) -> None:
    app.refuse("play", "NetStream.Play.StreamNotFound", "There is no recording of this stream.")
    async with RtmpClient(port=port) as client:
        await client.connect("live")
        with pytest.raises(Refused, match="StreamNotFound"):
            await client.play("clip")


@pytest.mark.usefixtures("clip")
async def test_a_playlist(port: int, app: ScriptedApplication) -> None:
    """Item after item, each with its own end; Play.Stop after the last."""
    async with Viewer(port=port) as viewer:
        await viewer.watch(duration=1000)
        viewer.protocol.play(viewer.stream_id, "clip", 2000, 1000, reset=False)
        await viewer.flush()
        await viewer.until_over()
        times = [at for kind, at, _ in viewer.media() if kind == VIDEO]
        assert times == [0, *range(0, 1000, 100), 0, *range(0, 1000, 100)]
        assert viewer.story().count("NetStream.Play.Start") == 2
    await app.event("rtmp.disconnect")
    assert [event["reason"] for event in app.connections[0].of("rtmp.stop")] == ["completed", "completed"]
