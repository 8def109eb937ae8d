"""A recording that can't be read, from the first or while it plays: what the client is told, and the operator."""

import os
import threading
from pathlib import Path

import pytest

from ingest.rtmp import events
from ingest.server.vod.library import READING_THREADS
from tests.ingest.server.app import ScriptedApplication
from tests.ingest.server.conftest import Serve
from tests.ingest.server.deadlines import set_deadlines
from tests.ingest.server.media import key_frame
from tests.ingest.server.recorded.files import CLIP, made, record, write
from tests.ingest.server.recorded.viewer import Viewer

MIB = 1024 * 1024


async def failed(viewer: Viewer, app: ScriptedApplication) -> tuple[str, str]:
    """The code that the client was told at last, and what the operator is."""
    stopped = await app.event("rtmp.stop")
    assert stopped["reason"] == "unreadable"
    codes = [event.code for event in viewer.of(events.StatusReceived)]
    assert "NetStream.Play.Stop" not in codes
    assert "NetStream.Play.Complete" not in viewer.story()
    return codes[-1], stopped["description"]


async def test_a_file_that_is_missing(port: int, app: ScriptedApplication, tmp_path: Path) -> None:
    record(app, tmp_path / "gone.flv")
    async with Viewer(port=port) as viewer:
        await viewer.watch()
        await viewer.until_code("NetStream.Play.StreamNotFound")
        _, description = await failed(viewer, app)
        assert "No such file" in description
        assert str(tmp_path) not in viewer.of(events.StatusReceived)[-1].description


async def test_a_file_that_is_no_flv(port: int, app: ScriptedApplication, tmp_path: Path) -> None:
    (tmp_path / "clip.flv").write_bytes(b"ID3" + bytes(1000))
    record(app, tmp_path / "clip.flv")
    async with Viewer(port=port) as viewer:
        await viewer.watch()
        await viewer.until_code("NetStream.Play.FileStructureInvalid")
        assert "no FLV file" in (await failed(viewer, app))[1]


@pytest.fixture
def broken(clip: Path) -> None:
    """From 3 s on."""
    content = bytearray(clip.read_bytes())
    content[content.index(key_frame(30)) - 11] = 7
    clip.write_bytes(content)


@pytest.mark.usefixtures("broken")
async def test_a_file_that_is_broken_in_the_middle(port: int, app: ScriptedApplication) -> None:
    async with Viewer(port=port) as viewer:
        await viewer.watch()
        await viewer.until_code("NetStream.Play.FileStructureInvalid")
        assert viewer.media() == [message for message in CLIP if message[1] < 3000]
        assert "no tag at byte" in (await failed(viewer, app))[1]


async def test_a_file_that_is_cut_while_it_plays(port: int, app: ScriptedApplication, tmp_path: Path) -> None:
    clip = write(tmp_path / "clip.flv", made(60, key_bytes=50_000))
    record(app, clip)
    async with Viewer(port=port) as viewer:
        await viewer.watch(buffer_ms=1000)
        await viewer.wait_for(events.VideoReceived)
        os.truncate(clip, 2 * MIB)
        viewer.protocol.set_buffer_length(viewer.stream_id, 36_000_000)
        await viewer.flush()
        await viewer.until_code("NetStream.Play.FileStructureInvalid")
        assert "had" in (await failed(viewer, app))[1]


async def test_a_file_that_is_deleted_while_it_plays_plays_on(
    port: int, app: ScriptedApplication, tmp_path: Path
) -> None:
    clip = write(tmp_path / "clip.flv", made(60))
    record(app, clip)
    async with Viewer(port=port) as viewer:
        await viewer.watch(buffer_ms=1000)
        await viewer.wait_for(events.VideoReceived)
        clip.unlink()
        viewer.protocol.set_buffer_length(viewer.stream_id, 36_000_000)
        await viewer.flush()
        await viewer.until_over()
        assert viewer.media() == made(60)


# --- Disks ---


async def test_a_disk_that_gives_nothing(serve: Serve, app: ScriptedApplication, tmp_path: Path) -> None:
    """The client is told, and goes on when it does. All threads that read are held meanwhile."""
    server = await serve()
    record(app, write(tmp_path / "clip.flv", made(60, key_bytes=50_000)))
    gives = threading.Event()
    try:
        async with Viewer(port=server.addresses[0][1]) as viewer:
            await viewer.watch(buffer_ms=500)
            await viewer.wait_for(events.VideoReceived)
            for _ in range(READING_THREADS):
                server.library.submit(lambda: bool(gives.wait(20)))
            viewer.protocol.set_buffer_length(viewer.stream_id, 36_000_000)
            await viewer.flush()
            await viewer.wait_until(lambda: "STREAM_DRY" in viewer.story(), 15)
            gives.set()
            await viewer.until_over()
            assert viewer.media() == made(60, key_bytes=50_000)
    finally:
        gives.set()


async def test_a_disk_that_hangs_before_anything_was_sent(
    serve: Serve, app: ScriptedApplication, tmp_path: Path
) -> None:
    """The client is told that there are no data yet, then that there are none."""
    server = await serve(disk_s=60)
    record(app, write(tmp_path / "clip.flv", CLIP))
    gives = threading.Event()
    try:
        for _ in range(READING_THREADS):
            server.library.submit(lambda: bool(gives.wait(20)))
        async with Viewer(port=server.addresses[0][1]) as viewer:
            await viewer.watch()
            await viewer.wait_until(lambda: "STREAM_DRY" in viewer.story(), 15)
            set_deadlines(server, disk_s=2.5)
            await viewer.until_code("NetStream.Play.Failed")
            assert viewer.story()[-3:] == ["STREAM_DRY", "STREAM_EOF", "NetStream.Play.Failed"]
            assert "Nothing came from the disk" in (await failed(viewer, app))[1]
    finally:
        gives.set()
