"""Files that can't be read, disks that hang, and what is known of the files that are played."""

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ingest.rtmp import Limits, events
from ingest.server import RtmpServer
from ingest.server.config import Mp4Settings
from ingest.server.vod import library, playback
from ingest.server.vod.flv_source import FlvSource, Span, read_info
from ingest.server.vod.library import READING_THREADS, Library, ReadAhead
from tests.server.app import ScriptedApp
from tests.server.clients import Viewer
from tests.server.conftest import Serve
from tests.server.media import key_frame
from tests.server.recorded.conftest import CLIP, made, record, write
from tests.server.waiting import becomes, set_deadlines

MIB = 1024 * 1024


@contextmanager
def hanging(library: Library) -> Iterator[threading.Event]:
    """Hold all threads that read files until the event is set, or the block ends."""
    gives = threading.Event()
    try:
        for _ in range(READING_THREADS):
            library.submit(lambda: bool(gives.wait(20)))
        yield gives
    finally:
        gives.set()


async def failed(viewer: Viewer, app: ScriptedApp) -> tuple[str, str]:
    """The code that the client was told at last, and what the operator is."""
    stopped = await app.event("rtmp.stop")
    assert stopped["reason"] == "unreadable"
    codes = [event.code for event in viewer.of(events.StatusReceived)]
    assert "NetStream.Play.Stop" not in codes
    assert "NetStream.Play.Complete" not in viewer.story()
    return codes[-1], stopped["description"]


@pytest.fixture
def broken(clip: Path) -> Path:
    """From 3 s on; beside it stands one that is no FLV."""
    content = bytearray(clip.read_bytes())
    content[content.index(key_frame(30)) - 11] = 7
    clip.write_bytes(content)
    (clip.parent / "other.flv").write_bytes(b"ID3" + bytes(1000))
    return clip


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("gone.flv", "NetStream.Play.StreamNotFound", "No such file"),
        ("other.flv", "NetStream.Play.FileStructureInvalid", "no FLV file"),
        ("clip.flv", "NetStream.Play.FileStructureInvalid", "no tag at byte"),
    ],
    ids=["missing", "no FLV", "broken in the middle"],
)
async def test_play_of_an_unreadable_file_ends_with_a_reason_that_hides_its_path(
    viewer: Viewer, app: ScriptedApp, broken: Path, name: str, code: str, said: str
) -> None:
    record(app, broken.parent / name)
    await viewer.watch()
    await viewer.status(code)
    assert viewer.media() == [message for message in CLIP if message[1] < 3000 and name == broken.name]
    assert said in (await failed(viewer, app))[1]
    assert str(broken.parent) not in viewer.of(events.StatusReceived)[-1].description


async def test_play_of_a_file_truncated_meanwhile_ends_as_invalid_structure(
    viewer: Viewer, app: ScriptedApp, tmp_path: Path
) -> None:
    clip = write(tmp_path / "clip.flv", made(60, key_bytes=50_000))
    record(app, clip)
    await viewer.begin(1000)
    os.truncate(clip, 2 * MIB)
    await viewer.hurry()
    await viewer.status("NetStream.Play.FileStructureInvalid")
    assert "had" in (await failed(viewer, app))[1]


async def test_a_file_that_is_deleted_while_it_plays_plays_on(viewer: Viewer, app: ScriptedApp, tmp_path: Path) -> None:
    clip = write(tmp_path / "clip.flv", made(60))
    record(app, clip)
    await viewer.begin(1000)
    clip.unlink()
    await viewer.finish()
    assert viewer.media() == made(60)


@pytest.fixture
def soon_dry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(playback, "DRY_S", 0.3)


@pytest.mark.usefixtures("soon_dry")
async def test_play_from_a_hanging_disk_sends_stream_dry_and_then_resumes(
    server: RtmpServer, viewer: Viewer, app: ScriptedApp, tmp_path: Path
) -> None:
    """The client is told, and goes on when it does."""
    record(app, write(tmp_path / "clip.flv", made(60, key_bytes=50_000)))
    await viewer.begin(500)
    with hanging(server.library) as gives:
        await viewer.hurry()
        await viewer.wait_until(lambda: "STREAM_DRY" in viewer.story(), 15)
        gives.set()
        await viewer.until_over()
    assert viewer.media() == made(60, key_bytes=50_000)


@pytest.mark.usefixtures("soon_dry")
async def test_play_from_a_disk_that_hangs_at_the_start_fails_after_the_deadline(
    serve: Serve, app: ScriptedApp, tmp_path: Path
) -> None:
    """The client is told that there are no data yet, then that there are none."""
    server = await serve(disk_s=60)
    record(app, write(tmp_path / "clip.flv", CLIP))
    with hanging(server.library):
        async with Viewer(port=server.addresses[0][1]) as viewer:
            await viewer.watch()
            await viewer.wait_until(lambda: "STREAM_DRY" in viewer.story(), 15)
            set_deadlines(server, disk_s=0.5)
            await viewer.status("NetStream.Play.Failed")
            assert viewer.story()[-3:] == ["STREAM_DRY", "STREAM_EOF", "NetStream.Play.Failed"]
            assert "Nothing came from the disk" in (await failed(viewer, app))[1]


LIMITS = Limits()


async def test_lookup_rereads_a_growing_file_only_after_its_interval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = Library(asyncio.get_running_loop(), LIMITS, Mp4Settings())
    path = write(tmp_path / "clip.flv", made(3), finished=False)
    monkeypatch.setattr(library, "GROWING_S", 60.0)
    try:
        first = await shelf.lookup(path)
        whole = write(tmp_path / "longer.flv", made(4), finished=False).read_bytes()
        with path.open("ab") as stream:
            stream.write(whole[path.stat().st_size :])
        assert await shelf.lookup(path) is first
        monkeypatch.setattr(library, "GROWING_S", 0.0)
        assert (await shelf.lookup(path)).duration_ms == 3907
        write(tmp_path / "other.flv", made(1)).replace(path)
        monkeypatch.setattr(library, "GROWING_S", 60.0)
        assert (await shelf.lookup(path)).duration_ms == 907, "another file is looked at in any case"
    finally:
        shelf.close()


def test_read_info_uses_less_than_half_of_its_time_on_the_processor(tmp_path: Path) -> None:
    path = write(tmp_path / "clip.flv", made(900), finished=False)
    worked, began = time.thread_time(), time.monotonic()
    read_info(path, None, LIMITS)
    assert time.thread_time() - worked < 0.5 * (time.monotonic() - began)


async def test_read_ahead_closed_during_a_disk_hang_blocks_no_other_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the file is closed when the disk is back."""
    shelf = Library(asyncio.get_running_loop(), LIMITS, Mp4Settings())
    path = write(tmp_path / "clip.flv", made(3))
    opened: list[FlvSource] = []
    reads, gives = threading.Event(), threading.Event()

    def hang(tape: FlvSource, _pieces: object) -> None:
        opened.append(tape)
        reads.set()
        gives.wait(20)

    monkeypatch.setattr(FlvSource, "_batch", hang)
    try:
        ahead = ReadAhead(shelf, path, lambda _found: None, 0)
        ahead.begin(Span())
        await asyncio.to_thread(reads.wait, 5)
        ahead.close()
        for _ in range(READING_THREADS):
            assert await asyncio.wait_for(shelf.run(lambda: 1), 5) == 1
        assert not opened[0]._stream.closed
        gives.set()
        await becomes(lambda: opened[0]._stream.closed)
    finally:
        gives.set()
        shelf.close()
