"""A disk that is full, slow or not to be written to: the live stream goes on, and those who should know are told."""

import asyncio
import os
import resource
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ingest.flv import read_index
from ingest.live import QueueLimits
from ingest.rtmp import events
from ingest.server import RtmpServer
from tests.rtmp_client import RtmpClient
from tests.server.app import ScriptedApp
from tests.server.clients import playing
from tests.server.conftest import Serve
from tests.server.media import key_frame
from tests.server.recording.test_recording import Recorded, media, send_pictures, statuses
from tests.server.waiting import becomes

FULL = "NetStream.Record.DiskQuotaExceeded"
NO_ACCESS = "NetStream.Record.NoAccess"
FAILED = "NetStream.Record.Failed"


@pytest.fixture
def recorded(app: ScriptedApp, serve: Serve, tmp_path: Path) -> Recorded:
    return Recorded(app, serve, tmp_path / "recordings")


class OnAir:
    """A publisher that is recorded, and a player of its stream."""

    def __init__(self, server: RtmpServer, publisher: RtmpClient, stream_id: int, player: RtmpClient) -> None:
        self.server = server
        self.publisher = publisher
        self.stream_id = stream_id
        self.player = player
        self.sent = 0

    async def send(self, count: int = 25) -> None:
        """Pictures and sounds, all of which the player gets."""
        await send_pictures(self.publisher, self.stream_id, 40 * self.sent, count)
        self.sent += count
        await self.player.wait_until(lambda: len(self.player.of(events.AudioReceived)) == 1 + self.sent)
        assert len(self.player.of(events.VideoReceived)) == 1 + self.sent

    async def told(self, code: str) -> events.StatusReceived:
        return await self.publisher.wait_for(events.StatusReceived, lambda event: event.code == code)


@asynccontextmanager
async def on_air(recorded: Recorded, **settings: Any) -> AsyncIterator[OnAir]:
    server = await recorded.serve(**settings)
    async with playing(server) as player, recorded.session() as (publisher, stream_id):
        yield OnAir(server, publisher, stream_id, player)


@pytest.fixture
def small_files() -> Iterator[int]:
    """No file of this process may grow over so many bytes, as if the disk were full."""
    limit = 100_000
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    yield limit
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def test_recording_on_a_full_disk_fails_with_a_warning_and_a_valid_file(
    recorded: Recorded, small_files: int
) -> None:
    async with on_air(recorded) as air:
        await air.send()
        await recorded.until("started")
        while not recorded.told("failed"):
            await air.send()
        status = await air.told(FULL)
        assert status.level == "warning"
        await air.send()
        assert not air.publisher.closed
    (failed,) = recorded.told("failed")
    assert failed["code"] == FULL
    assert "large" in failed["description"] or "space" in failed["description"]
    path = recorded.folder / failed["file"]
    assert path.stat().st_size == failed["size_bytes"] <= small_files
    with path.open("rb") as stream:
        index = read_index(stream)
    assert not index.is_truncated
    assert index.metadata["duration"] * 1000 == failed["duration_ms"] > 0


async def test_when_the_disk_has_room_again_the_recording_goes_on(recorded: Recorded, small_files: int) -> None:
    async with on_air(recorded, again_s=0.05) as air:
        await air.send()
        await recorded.until("started")
        while not recorded.told("failed"):
            await air.send()
        for _ in range(3):  # It is tried again, fails again, and is not told of again.
            await asyncio.sleep(0.06)
            await air.send()
        assert len(recorded.told("failed")) <= 1 + len(recorded.told("started"))
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        (path,) = recorded.files()
        while path.stat().st_size < 2 * small_files:
            await asyncio.sleep(0.06)
            await air.send()
        await air.publisher.delete_stream(air.stream_id)
        (closed,) = await recorded.until("closed")
    assert closed["is_continued"]
    assert recorded.files() == [path]
    times = [time for _, time, _ in media(recorded.tags(closed))]
    assert times == sorted(times)


async def test_recording_fails_below_the_minimum_free_disk_space(recorded: Recorded) -> None:
    async with on_air(recorded, min_free_bytes=2**60) as air:
        await air.send()
        (failed,) = await recorded.until("failed")
        assert failed["description"].endswith("MiB that stay.")
        assert (await air.told(FULL)).level == "warning"
        await air.send()
    assert recorded.files() == []


@pytest.mark.parametrize("obstacle", ["a file in the way", "no right to write"])
async def test_recording_to_an_unwritable_folder_fails_with_a_warning(recorded: Recorded, obstacle: str) -> None:
    if obstacle == "a file in the way":
        recorded.folder.write_text("no folder")
        code = FAILED
    else:
        code = NO_ACCESS
        if os.geteuid() == 0:
            recorded.folder = Path("/proc/sys")  # Where not even root makes a folder.
        else:
            recorded.folder.mkdir(mode=0o500)
    async with on_air(recorded) as air:
        await air.send()
        (failed,) = await recorded.until("failed")
        assert failed["file"] == ""
        assert (await air.told(failed["code"])).level == "warning"
        await air.send()
        assert not [status for status in statuses(air.publisher) if status[0] == "error"]
    assert failed["code"] in (code, FAILED)


EACH_TIME_S = 1e-9
"""As `sync_s`: whatever is written is brought to the disk."""


class HangingDisk:
    """fsync returns when it is let go, as on a disk that hangs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.hangs = threading.Event()
        self.released = threading.Event()
        self._fsync = os.fsync
        monkeypatch.setattr("ingest.flv.recording.os.fsync", self._hang)

    def _hang(self, descriptor: int) -> None:
        self.hangs.set()
        self.released.wait(20)
        self._fsync(descriptor)

    async def wait_hanging(self) -> None:
        assert await asyncio.to_thread(self.hangs.wait, 5), "nothing was brought to it"


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[HangingDisk]:
    disk = HangingDisk(monkeypatch)
    yield disk
    disk.released.set()


async def test_hanging_disk_delays_no_player_and_the_recording_queue_is_bounded(
    recorded: Recorded, hanging: HangingDisk
) -> None:
    queue = QueueLimits(messages=100_000, size_bytes=400_000, seconds=60)
    async with on_air(recorded, sync_s=EACH_TIME_S, stall_s=0.2, queue=queue) as air:
        await air.send()
        await hanging.wait_hanging()
        air.server.loop_delay.take_most()
        assert air.server.recorders is not None
        (recorder,) = air.server.recorders._recorders
        waiting = []
        for number in range(40):  # 4 MB: ten times the queue.
            await air.publisher.send_video(air.stream_id, 40 * (air.sent + number), key_frame(number, 100_000))
            await air.player.wait_count(events.VideoReceived, 2 + air.sent + number)
            waiting.append(recorder._subscriber.pending_bytes)
        assert max(waiting) <= queue.size_bytes
        assert air.server.loop_delay.take_most() < 10, "half of what the disk hangs"
        (failed,) = await recorded.until("failed")
        assert failed["code"] == FAILED
        assert failed["file"] == ""
        assert "taken nothing" in failed["description"]
        assert (await air.told(FAILED)).level == "warning"
        hanging.released.set()
        await air.publisher.delete_stream(air.stream_id)
        (closed,) = await recorded.until("closed")
    assert closed["dropped_frames"] >= 30
    tags = media(recorded.tags(closed))
    assert tags[-1][2] == key_frame(39, 100_000)


async def test_memory_of_all_recordings_on_a_hanging_disk_is_bounded_together(
    recorded: Recorded, hanging: HangingDisk
) -> None:
    most = 1_000_000
    server = await recorded.serve(sync_s=EACH_TIME_S, memory_bytes=most, threads=1)
    recorders = server.recorders
    assert recorders is not None
    async with AsyncExitStack() as stack:
        sessions = [await stack.enter_async_context(recorded.session(name=f"cam{number}")) for number in range(3)]
        await send_pictures(*sessions[0], 0, 1)
        await hanging.wait_hanging()
        for publisher, stream_id in sessions:
            await send_pictures(publisher, stream_id, 0, 1)
        await becomes(lambda: all(recorder._busy_since is not None for recorder in recorders._recorders))
        for number in range(20):  # 6 MB, of which no queue alone has too much.
            for publisher, stream_id in sessions:
                await publisher.send_video(stream_id, 1000 + 40 * number, key_frame(number, 100_000))

        def has_dropped_to_its_bounds() -> bool:
            dropped = sum(recorder.dropped_frames for recorder in recorders._recorders)
            held = sum(recorder.held_bytes for recorder in recorders._recorders)
            return dropped > 20 and held <= most

        await becomes(has_dropped_to_its_bounds)
        hanging.released.set()
        for publisher, stream_id in sessions:
            await publisher.send_video(stream_id, 3000, key_frame(99))
            await publisher.delete_stream(stream_id)
        closed = await recorded.until("closed", 3)
    assert sum(event["dropped_frames"] for event in closed) > 20
    for event in closed:
        assert media(recorded.tags(event))[-1][2] == key_frame(99)


async def test_a_disk_that_hangs_does_not_hold_up_the_stop(recorded: Recorded, hanging: HangingDisk) -> None:
    async with on_air(recorded) as air:
        await air.send()
        await recorded.until("started")
        await air.publisher.delete_stream(air.stream_id)
        async with asyncio.timeout(5):
            await hanging.wait_hanging()
            await air.server.stop(grace_s=0.5)
    assert recorded.told("closed") == []


async def test_recording_closed_after_its_publisher_left_is_reported_by_the_node(
    recorded: Recorded, hanging: HangingDisk
) -> None:
    async with on_air(recorded) as air:
        await air.send()
        await recorded.until("started")
    await recorded.app.wait_until(lambda: bool(recorded.app.connections[0].of("rtmp.disconnect")))
    hanging.released.set()
    (closed,) = await recorded.until("closed")
    assert closed["type"] == "node.record"
    assert closed["session_id"] == recorded.told("started")[0]["session_id"]
    assert closed["duration_ms"] == 24 * 40 + 10
    await air.server.stop()


async def test_recording_without_a_configured_folder_fails_with_that_reason(recorded: Recorded) -> None:
    async with on_air(recorded, config={"recording": None}) as air:
        await air.told(FAILED)
        await air.send()
        assert statuses(air.publisher)[0][1] == "NetStream.Publish.Start"
    assert "no folder" in recorded.told("failed")[0]["description"]


async def test_recording_does_not_write_through_a_symbolic_link(recorded: Recorded, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"mine")
    (recorded.folder / "live").mkdir(parents=True)
    (recorded.folder / "live" / "link.flv").symlink_to(target)
    recorded.order = {"mode": "append", "file": "live/link.flv"}
    async with on_air(recorded) as air:
        await air.send()
        await recorded.until("failed")
    assert target.read_bytes() == b"mine"


def unrecorded(recorded: Recorded) -> tuple[int, list[str]]:
    """What the latest tick says: streams that are not recorded, and the sentences of such issues."""
    if not recorded.app.ticks:
        return -1, []
    tick = recorded.app.ticks[-1]
    issues = [issue for stream in tick["streams"] for issue in stream["issues"]]
    return tick["figures"]["recordings_failing"], [
        issue["title"] for issue in issues if issue["check"] == "recording_failed"
    ]


async def test_stream_health_shows_a_failed_recording_until_it_goes_on(recorded: Recorded) -> None:
    recorded.folder.write_text("no folder")
    async with on_air(recorded, again_s=0.05) as air:
        await air.send()
        (failed,) = await recorded.until("failed")
        said = f"The stream is not recorded. {failed['description']}"
        await recorded.app.wait_until(lambda: unrecorded(recorded) == (1, [said]))
        recorded.folder.unlink()
        async with asyncio.timeout(10):
            while not recorded.told("started"):
                await air.send(5)
        await recorded.app.wait_until(lambda: unrecorded(recorded) == (0, []))


async def test_recovered_disk_clears_the_failed_recording_issue(recorded: Recorded, hanging: HangingDisk) -> None:
    async with on_air(recorded, sync_s=EACH_TIME_S, stall_s=0.2) as air:
        await air.send()
        await hanging.wait_hanging()
        await recorded.app.wait_until(lambda: unrecorded(recorded)[0] == 1)
        hanging.released.set()
        await recorded.app.wait_until(lambda: unrecorded(recorded) == (0, []))
