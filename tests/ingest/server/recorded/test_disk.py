"""Files that can't be read, disks that hang, and what is known of the files that are played."""

import asyncio
import os
import threading
import time
from pathlib import Path

import pytest

from ingest.rtmp import Limits, events
from ingest.server import RtmpServer
from ingest.server.recorded import library
from ingest.server.recorded.library import READING_THREADS, Library
from ingest.server.recorded.span import Span
from ingest.server.recorded.tape import Leaf, Tape, read_leaf
from tests.ingest.server.app import ScriptedApp
from tests.ingest.server.conftest import Serve
from tests.ingest.server.media import key_frame
from tests.ingest.server.recorded.viewer import CLIP, Viewer, made, record, write
from tests.ingest.server.waiting import set_deadlines

MIB = 1024 * 1024


async def failed(viewer: Viewer, app: ScriptedApp) -> tuple[str, str]:
    """The code that the client was told at last, and what the operator is."""
    stopped = await app.event("rtmp.stop")
    assert stopped["reason"] == "unreadable"
    codes = [event.code for event in viewer.of(events.StatusReceived)]
    assert "NetStream.Play.Stop" not in codes
    assert "NetStream.Play.Complete" not in viewer.story()
    return codes[-1], stopped["description"]


async def test_a_file_that_is_missing(viewer: Viewer, app: ScriptedApp, tmp_path: Path) -> None:
    record(app, tmp_path / "gone.flv")
    await viewer.watch()
    await viewer.until_code("NetStream.Play.StreamNotFound")
    _, description = await failed(viewer, app)
    assert "No such file" in description
    assert str(tmp_path) not in viewer.of(events.StatusReceived)[-1].description


async def test_a_file_that_is_no_flv(viewer: Viewer, app: ScriptedApp, tmp_path: Path) -> None:
    (tmp_path / "clip.flv").write_bytes(b"ID3" + bytes(1000))
    record(app, tmp_path / "clip.flv")
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
async def test_a_file_that_is_broken_in_the_middle(viewer: Viewer, app: ScriptedApp) -> None:
    await viewer.watch()
    await viewer.until_code("NetStream.Play.FileStructureInvalid")
    assert viewer.media() == [message for message in CLIP if message[1] < 3000]
    assert "no tag at byte" in (await failed(viewer, app))[1]


async def test_a_file_that_is_cut_while_it_plays(viewer: Viewer, app: ScriptedApp, tmp_path: Path) -> None:
    clip = write(tmp_path / "clip.flv", made(60, key_bytes=50_000))
    record(app, clip)
    await viewer.watch(buffer_ms=1000)
    await viewer.wait_for(events.VideoReceived)
    os.truncate(clip, 2 * MIB)
    await viewer.hurry()
    await viewer.until_code("NetStream.Play.FileStructureInvalid")
    assert "had" in (await failed(viewer, app))[1]


async def test_a_file_that_is_deleted_while_it_plays_plays_on(viewer: Viewer, app: ScriptedApp, tmp_path: Path) -> None:
    clip = write(tmp_path / "clip.flv", made(60))
    record(app, clip)
    await viewer.watch(buffer_ms=1000)
    await viewer.wait_for(events.VideoReceived)
    clip.unlink()
    await viewer.hurry()
    await viewer.until_over()
    assert viewer.media() == made(60)


# --- Disks ---


async def test_a_disk_that_gives_nothing(server: RtmpServer, app: ScriptedApp, tmp_path: Path) -> None:
    """The client is told, and goes on when it does. All threads that read are held meanwhile."""
    record(app, write(tmp_path / "clip.flv", made(60, key_bytes=50_000)))
    gives = threading.Event()
    try:
        async with Viewer(port=server.addresses[0][1]) as viewer:
            await viewer.watch(buffer_ms=500)
            await viewer.wait_for(events.VideoReceived)
            for _ in range(READING_THREADS):
                server.library.submit(lambda: bool(gives.wait(20)))
            await viewer.hurry()
            await viewer.wait_until(lambda: "STREAM_DRY" in viewer.story(), 15)
            gives.set()
            await viewer.until_over()
            assert viewer.media() == made(60, key_bytes=50_000)
    finally:
        gives.set()


async def test_a_disk_that_hangs_before_anything_was_sent(serve: Serve, app: ScriptedApp, tmp_path: Path) -> None:
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


LIMITS = Limits()


async def looked_up(found: Library, path: Path) -> Leaf:
    told: asyncio.Future[Leaf | Exception] = found.loop.create_future()
    found.look_up(path, told.set_result)
    leaf = await told
    assert isinstance(leaf, Leaf)
    return leaf


async def test_a_growing_file_is_looked_at_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = Library(asyncio.get_running_loop(), LIMITS)
    path = write(tmp_path / "clip.flv", made(3), finished=False)
    monkeypatch.setattr(library, "GROWING_S", 60.0)
    try:
        first = await looked_up(shelf, path)
        whole = write(tmp_path / "longer.flv", made(4), finished=False).read_bytes()
        with path.open("ab") as stream:
            stream.write(whole[path.stat().st_size :])
        assert await looked_up(shelf, path) is first
        monkeypatch.setattr(library, "GROWING_S", 0.0)
        assert (await looked_up(shelf, path)).duration_ms == 3907
        write(tmp_path / "other.flv", made(1)).replace(path)
        monkeypatch.setattr(library, "GROWING_S", 60.0)
        assert (await looked_up(shelf, path)).duration_ms == 907, "another file is looked at in any case"
    finally:
        shelf.close()


def test_looking_leaves_most_of_the_time_to_others(tmp_path: Path) -> None:
    path = write(tmp_path / "clip.flv", made(900), finished=False)
    worked, began = time.thread_time(), time.monotonic()
    read_leaf(path, None, LIMITS)
    assert time.thread_time() - worked < 0.5 * (time.monotonic() - began)


async def test_who_leaves_while_the_disk_hangs_takes_no_other_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the file is closed when the disk is back."""
    shelf = Library(asyncio.get_running_loop(), LIMITS)
    path = write(tmp_path / "clip.flv", made(3))
    tape = Tape(path, read_leaf(path, None, LIMITS), LIMITS)
    reads, gives = threading.Event(), threading.Event()

    def hang(*_pieces: object) -> None:
        reads.set()
        gives.wait(20)

    monkeypatch.setattr(tape, "_batch", hang)
    descriptor = tape._stream.fileno()
    told: asyncio.Future[object] = shelf.loop.create_future()
    served: asyncio.Future[object] = shelf.loop.create_future()
    try:
        shelf.run(lambda: tape.begin(Span()), told.set_result)
        await asyncio.to_thread(reads.wait, 5)
        for _ in range(READING_THREADS):
            shelf.submit(tape.close)
        shelf.run(lambda: 1, served.set_result)
        assert await asyncio.wait_for(served, 5) == 1
        gives.set()
        await asyncio.wait_for(told, 5)
        with pytest.raises(OSError, match="descriptor"):
            os.fstat(descriptor)
    finally:
        gives.set()
        shelf.close()
