"""Recordings by HTTP as MP4: the same bytes however they are asked for, made once, and in words why there are none."""

import asyncio
import subprocess
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from ingest.flv.tags import tag_bytes
from ingest.mp4 import frames as frames_module
from ingest.mp4.frames import scan_frames
from ingest.mp4.heads import FOLDER
from ingest.mp4.limits import Mp4Limits
from ingest.mp4.movie import movie_head
from ingest.rtmp.limits import DEFAULT_LIMITS
from ingest.server import RtmpServer
from ingest.server.config import Mp4Settings
from ingest.server.media.live_viewer import file_start
from ingest.server.vod.library import Library
from tests.media import make_clip
from tests.pure.mp4.test_movie import check_same, packets
from tests.server.app import ScriptedApp
from tests.server.conftest import Serve
from tests.server.media import AAC_HEADER, AVC_HEADER, inter_frame, key_frame, sound
from tests.server.viewers.browser import Viewer, ask
from tests.server.waiting import becomes
from tests.tools import require_tool

URL = "/recordings/live/cam1.mp4"
FRAMES = 200


def flv(frames: int = FRAMES, size: int = 2000) -> bytes:
    tags = [tag_bytes(9, 0, AVC_HEADER), tag_bytes(8, 0, AAC_HEADER)]
    for number in range(frames):
        frame = key_frame(number, size) if number % 25 == 0 else inter_frame(number, size)
        tags += [tag_bytes(9, number * 40, frame), tag_bytes(8, number * 40 + 5, sound(number))]
    return file_start(audio=True, video=True) + b"".join(tags)


def as_mp4(content: bytes) -> bytes:
    frames = scan_frames(BytesIO(content), DEFAULT_LIMITS, Mp4Limits())
    return movie_head(frames) + content[: frames.end]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "recordings"


@pytest.fixture
def file(folder: Path, app: ScriptedApp) -> Path:
    """The application lets everybody play it."""
    path = folder / "live" / "cam1.flv"
    path.parent.mkdir(parents=True)
    path.write_bytes(flv())
    lets(app, path)
    return path


def lets(app: ScriptedApp, path: Path, **more: Any) -> None:
    app.change("rtmp.play", recording={"recording": 1, "name": "cam1", "file": str(path), "duration_ms": 8000, **more})


@pytest.fixture
async def server(serve: Serve, folder: Path) -> RtmpServer:
    return await serve(config={"media": ("127.0.0.1", 0), "mp4": Mp4Settings(folder=folder)})


def put(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def drop(path: Path) -> None:
    path.unlink()


def kept_in(folder: Path) -> list[Path]:
    return list((folder / FOLDER).iterdir())


def mp4_of(path: Path) -> bytes:
    return as_mp4(path.read_bytes())


class Scans:
    """How many files were scanned."""

    count = 0


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> Scans:
    counted, scan = Scans(), frames_module.scan_frames

    def scan_frames(*given: Any, **named: Any) -> Any:
        counted.count += 1
        return scan(*given, **named)

    monkeypatch.setattr(frames_module, "scan_frames", scan_frames)
    return counted


async def test_whole_recording_is_served_as_mp4(server: RtmpServer, app: ScriptedApp, file: Path) -> None:
    expected = mp4_of(file)
    answer = await ask(server, f"{URL}?token=secret-token")
    assert (answer.status, bytes(answer.body)) == (200, expected)
    headers = answer.headers
    assert (headers["content-type"], headers["accept-ranges"]) == ("video/mp4", "bytes")
    assert headers["content-length"] == str(len(expected))
    assert headers["cache-control"] == "no-cache"
    (asked,) = app.connections[-1].of("rtmp.play")
    assert (asked["name"], asked["start"], asked["credential"]) == ("cam1", 0, "secret-token")
    stopped = await app.event("rtmp.stop")
    assert (stopped["reason"], stopped["totals"]["bytes_out"]) == ("completed", len(expected))
    head = await ask(server, URL, method="HEAD")
    assert (head.status, head.headers["content-length"], bytes(head.body)) == (200, str(len(expected)), b"")


async def test_mp4_ranges_return_the_same_bytes_as_the_whole_file(server: RtmpServer, file: Path) -> None:
    expected = mp4_of(file)
    begin = expected.index(b"mdat") + 12
    for first, last in (
        (0, 1),
        (5, begin - 3),
        (begin - 2, begin + 2),
        (begin, begin),
        (begin + 300_000, len(expected)),
    ):
        answer = await ask(server, URL, headers={"Range": f"bytes={first}-{last}"})
        assert (answer.status, bytes(answer.body)) == (206, expected[first : last + 1])
        end = min(last, len(expected) - 1)
        assert answer.headers["content-range"] == f"bytes {first}-{end}/{len(expected)}"
    answer = await ask(server, URL, headers={"Range": "bytes=-7"})
    assert (answer.status, bytes(answer.body)) == (206, expected[-7:])
    beyond = await ask(server, URL, headers={"Range": f"bytes={len(expected)}-"})
    assert (beyond.status, beyond.headers["content-range"]) == (416, f"bytes */{len(expected)}")


async def test_mp4_etag_follows_the_state_of_the_file_in_conditional_requests(server: RtmpServer, file: Path) -> None:
    tag = (await ask(server, URL, method="HEAD")).headers["etag"]
    assert tag != (await ask(server, URL.replace(".mp4", ".flv"), method="HEAD")).headers["etag"]
    assert (await ask(server, URL, headers={"Range": "bytes=0-9", "If-Range": tag})).status == 206
    assert (await ask(server, URL, headers={"Range": "bytes=0-9", "If-Range": '"other"'})).status == 200
    for known in (tag, f'"other", W/{tag}'):
        same = await ask(server, URL, headers={"If-None-Match": known})
        assert (same.status, same.headers["etag"], bytes(same.body)) == (304, tag, b"")
    put(file, flv(FRAMES + 25))
    changed = await ask(server, URL, headers={"If-None-Match": tag})
    assert (changed.status, bytes(changed.body)) == (200, mp4_of(file))


async def test_mp4_head_is_made_once_for_concurrent_requests_and_kept(
    server: RtmpServer, file: Path, folder: Path, scans: Scans
) -> None:
    answers = await asyncio.gather(*(ask(server, URL, headers={"Range": "bytes=0-99"}) for _ in range(20)))
    assert {answer.status for answer in answers} == {206}
    assert scans.count == 1
    (kept,) = kept_in(folder)
    await ask(server, URL)
    assert scans.count == 1
    drop(kept)
    await ask(server, URL)
    assert scans.count == 2


async def test_mp4_open_that_missed_a_concurrent_build_reuses_its_head(
    file: Path, folder: Path, scans: Scans, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is told so only after that."""
    library = Library(asyncio.get_running_loop(), DEFAULT_LIMITS, Mp4Settings(folder=folder))
    has_looked, is_made = asyncio.Event(), asyncio.Event()

    async def told_late(found: "asyncio.Future[Any]") -> Any:
        await found
        has_looked.set()
        await is_made.wait()
        return await found

    with monkeypatch.context() as patch:
        patch.setattr(library, "run", lambda job: asyncio.ensure_future(told_late(Library.run(library, job))))
        late = asyncio.create_task(library.mp4.open(file))
        await has_looked.wait()
    (await library.mp4.open(file)).close()
    is_made.set()
    (await late).close()
    assert scans.count == 1
    library.close()


@pytest.mark.parametrize("why", ["no folder is set", "the folder can't be written"])
async def test_mp4_is_served_and_scanned_once_without_a_writable_folder(
    serve: Serve, file: Path, folder: Path, scans: Scans, why: str
) -> None:
    if why == "no folder is set":
        settings = Mp4Settings(unnamed=1)
    else:
        put(folder / FOLDER, b"in the way")
        settings = Mp4Settings(folder=folder, unnamed=1)
    server = await serve(config={"media": ("127.0.0.1", 0), "mp4": settings})
    for _ in range(3):
        answer = await ask(server, URL, headers={"Range": "bytes=10-"})
        assert (answer.status, bytes(answer.body)) == (206, mp4_of(file)[10:])
    assert scans.count == 1
    put(file, flv(25))
    assert bytes((await ask(server, URL)).body) == mp4_of(file)
    assert scans.count == 2


async def test_mp4_download_has_its_own_disposition_and_live_mp4_is_404(
    server: RtmpServer, app: ScriptedApp, file: Path
) -> None:
    lets(app, file, disposition="attachment; filename=a.flv", mp4_disposition="attachment; filename=a.mp4")
    assert (await ask(server, URL)).headers["content-disposition"] == "attachment; filename=a.mp4"
    other = await ask(server, URL.replace(".mp4", ".flv"))
    assert other.headers["content-disposition"] == "attachment; filename=a.flv"
    assert (await ask(server, "/live/live/cam1.mp4")).status == 404


async def test_mp4_of_a_growing_recording_is_refused_with_409(server: RtmpServer, app: ScriptedApp, file: Path) -> None:
    lets(app, file, growing=True)
    answer = await ask(server, URL)
    assert (answer.status, answer.detail.partition(":")[0]) == (409, "It is still being recorded")
    assert (await ask(server, URL.replace(".mp4", ".flv"))).status == 200


async def test_mp4_of_an_unsupported_codec_is_415_and_remembered(server: RtmpServer, file: Path, scans: Scans) -> None:
    put(file, flv(10) + tag_bytes(8, 500, b"\xb2speex"))
    for _ in range(2):
        answer = await ask(server, URL)
        assert answer.status == 415
        assert answer.detail.startswith("Its sound is Speex")
    assert scans.count == 1
    put(file, flv(10))
    assert (await ask(server, URL)).status == 200


async def test_mp4_of_a_missing_or_non_flv_file_is_404(server: RtmpServer, file: Path) -> None:
    put(file, b"no flv at all, whatever its name says")
    assert (await ask(server, URL)).status == 404
    drop(file)
    assert (await ask(server, URL)).status == 404


@pytest.mark.parametrize("form", ["mp4", "flv"])
async def test_stalled_mp4_viewer_is_kept_and_stalled_flv_download_is_ended(
    serve: Serve, app: ScriptedApp, file: Path, form: str
) -> None:
    """What plays MP4 may; a download has to go on."""
    server = await serve(config={"media": ("127.0.0.1", 0)}, write_s=0.3)
    put(file, flv(600, 50_000))
    async with Viewer(server, URL.replace("mp4", form)) as viewer:
        await viewer.wait_accepted()
        viewer.pause_reading()
        (connection,) = server.connections
        await becomes(lambda: connection.outlet.is_full)
        if form == "flv":
            assert (await app.event("rtmp.stop"))["reason"] == "too_slow"
            return
        blocked = connection.outlet.blocked_since
        await becomes(lambda: asyncio.get_running_loop().time() - (blocked or 0) > 1)
        viewer.resume_reading()
        await viewer.wait_until(lambda: viewer.over, timeout_s=20)
        assert bytes(viewer.body) == mp4_of(file)


async def test_ffmpeg_reads_and_seeks_by_http(server: RtmpServer, file: Path) -> None:
    require_tool("ffprobe")
    make_clip(file, seconds=6)
    url = f"http://127.0.0.1:{server.bound['http'][0][1]}{URL}"
    check_same(packets(str(file)), await asyncio.to_thread(packets, url))
    command = ["ffprobe", "-v", "error", "-select_streams", "v", "-show_entries", "packet=pts_time,flags"]
    command += ["-read_intervals", "4.5%+#1", "-of", "csv=p=0", url]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=20, check=True)
    time, flags = done.stdout.strip().split(",")
    assert float(time) == pytest.approx(4, abs=0.1)
    assert flags.startswith("K")
