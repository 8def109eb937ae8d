"""Recordings by HTTP and WebSocket: the file, ranges of it, and FLV from a time on."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from ingest.flv.tags import Tag, TagReader, tag_bytes
from ingest.server import RtmpServer
from ingest.server.media.live_viewer import file_start
from tests.server.app import ScriptedApp
from tests.server.conftest import Serve
from tests.server.media import AAC_HEADER, AVC_HEADER, inter_frame, key_frame, sound
from tests.server.recorded.test_disk import hanging
from tests.server.viewers.browser import SocketViewer, Viewer, ask
from tests.server.waiting import becomes

URL = "/recordings/live/cam1.flv"

FRAME_MS = 40
GROUP = 25
"""A keyframe each second."""
FRAMES = 200


def tags() -> list[tuple[int, int, bytes]]:
    found = [(9, 0, AVC_HEADER), (8, 0, AAC_HEADER)]
    for number in range(FRAMES):
        frame = key_frame(number, 4000) if number % GROUP == 0 else inter_frame(number, 2000)
        found += [(9, number * FRAME_MS, frame), (8, number * FRAME_MS + 5, sound(number))]
    return found


class File:
    """A recording's file, and what is in it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, content: bytes) -> None:
        self.content = content
        self.size = len(content)
        self.path.write_bytes(content)

    def grow(self) -> None:
        """By 30 MB: more than fits into the buffers on the way."""
        more = (tag_bytes(9, FRAMES * FRAME_MS + number, key_frame(number, 100_000)) for number in range(300))
        self.write(self.content + b"".join(more))

    def remove(self) -> None:
        self.path.unlink()


@pytest.fixture
def file(tmp_path: Path, app: ScriptedApp) -> File:
    """The application lets everybody play it."""
    path = tmp_path / "cam1.flv"
    file = File(path)
    file.write(file_start(audio=True, video=True) + b"".join(tag_bytes(*tag) for tag in tags()))
    recording = {"recording": 1, "name": "cam1", "file": str(path), "duration_ms": FRAMES * FRAME_MS}
    app.change("rtmp.play", recording=recording)
    return file


async def test_recording_is_served_byte_for_byte(media_port: int, app: ScriptedApp, file: File) -> None:
    answer = await ask(media_port, f"{URL}?token=secret-token")
    assert (answer.status, bytes(answer.body)) == (200, file.content)
    assert answer.headers["content-length"] == str(file.size)
    assert answer.headers["accept-ranges"] == "bytes"
    (asked,) = app.connections[-1].of("rtmp.play")
    assert (asked["name"], asked["start"], asked["credential"]) == ("cam1", 0, "secret-token")
    stopped = await app.event("rtmp.stop")
    assert (stopped["reason"], stopped["totals"]["bytes_out"]) == ("completed", file.size)
    head = await ask(media_port, URL, method="HEAD")
    assert (head.status, head.headers["content-length"], bytes(head.body)) == (200, str(file.size), b"")


@pytest.mark.parametrize(
    ("wanted", "first", "last"),
    [("bytes=0-99", 0, 99), ("bytes=100-", 100, None), ("bytes=-50", -50, None), ("bytes=10-99999999", 10, None)],
)
async def test_range_request_returns_that_part_of_the_recording(
    media_port: int, file: File, wanted: str, first: int, last: int | None
) -> None:
    content = file.content
    expected = content[first : None if last is None else last + 1]
    answer = await ask(media_port, URL, headers={"Range": wanted})
    assert (answer.status, bytes(answer.body)) == (206, expected)
    start = first % len(content)
    assert answer.headers["content-range"] == f"bytes {start}-{start + len(expected) - 1}/{len(content)}"


@pytest.mark.parametrize("wanted", ["bytes=0-1,5-6", "lines=0-1", "bytes=-", "bytes=x-", "bytes", "bytes=9-1"])
async def test_invalid_or_multiple_range_gets_the_whole_file(media_port: int, file: File, wanted: str) -> None:
    answer = await ask(media_port, URL, headers={"Range": wanted})
    assert (answer.status, len(answer.body)) == (200, file.size)


async def test_range_beyond_the_end_is_416_and_stale_if_range_gets_the_whole_file(media_port: int, file: File) -> None:
    size = file.size
    beyond = await ask(media_port, URL, headers={"Range": f"bytes={size}-"})
    assert (beyond.status, beyond.headers["content-range"]) == (416, f"bytes */{size}")
    same = (await ask(media_port, URL, method="HEAD")).headers["etag"]
    assert (await ask(media_port, URL, headers={"Range": "bytes=0-9", "If-Range": same})).status == 206
    assert (await ask(media_port, URL, headers={"Range": "bytes=0-9", "If-Range": '"other"'})).status == 200


@pytest.mark.parametrize(("start", "first"), [("0", 0), ("2.5", 50), ("3", 75), ("1000", 175)])
async def test_start_parameter_serves_flv_from_the_keyframe_before_that_time(
    media_port: int, file: File, start: str, first: int
) -> None:
    answer = await ask(media_port, f"{URL}?start={start}")
    assert (answer.status, answer.headers["content-length"]) == (200, str(len(answer.body)))
    check_it_begins_at(answer.tags, first)
    assert bytes(answer.body[:5]) == b"FLV\x01\x05"
    async with SocketViewer(media_port, f"{URL}?start={start}") as viewer:
        await viewer.wait_until(lambda: viewer.close_code is not None)
        check_it_begins_at(viewer.tags, first)


def check_it_begins_at(got: list[Tag], first: int) -> None:
    metadata, *headers = got[:3]
    assert metadata.type_id == 18
    assert [tag.payload for tag in headers] == [AVC_HEADER, AAC_HEADER]
    assert metadata.timestamp == 0, "else FFmpeg takes them for subtitles"
    assert {tag.timestamp for tag in headers} == {first * FRAME_MS}
    assert [(tag.type_id, tag.timestamp, tag.payload) for tag in got[3:]] == tags()[2 + 2 * first :]


async def test_a_file_that_is_cut_is_sent_to_its_last_whole_tag(media_port: int, file: File) -> None:
    file.write(file.content[:-30])
    answer = await ask(media_port, f"{URL}?start=7")
    reader = TagReader()
    assert list(reader.feed(bytes(answer.body)))[-1].payload == tags()[-2][2]
    assert not reader.is_truncated


async def test_download_has_the_content_disposition_of_the_application(
    media_port: int, app: ScriptedApp, file: File
) -> None:
    """It is the application that says so, with what to call it."""
    said = "attachment; filename*=utf-8''gr%C3%BC%C3%9Fe.flv"
    assert "content-disposition" not in (await ask(media_port, URL)).headers
    recording = {"recording": 1, "name": "cam1", "file": str(file.path), "duration_ms": 0, "disposition": said}
    app.change("rtmp.play", recording=recording)
    for headers, status in (({}, 200), ({"Range": "bytes=5-"}, 206)):
        answer = await ask(media_port, URL, headers=headers)
        assert (answer.status, answer.headers["content-disposition"]) == (status, said)


@pytest.mark.parametrize("start", ["x", "-1", "nan", "1e99"])
async def test_invalid_start_time_is_400(media_port: int, file: File, start: str) -> None:
    assert (await ask(media_port, f"{URL}?start={start}")).status == 400


async def test_missing_or_unreadable_recording_is_404(media_port: int, app: ScriptedApp, file: File) -> None:
    file.write(b"no flv at all, whatever its name says")
    assert (await ask(media_port, f"{URL}?start=1")).status == 404
    file.remove()
    assert (await ask(media_port, URL)).status == 404
    assert (await ask(media_port, f"{URL}?start=1")).status == 404
    app.on["rtmp.play"] = app.accept_play
    assert (await ask(media_port, URL)).status == 404
    assert not app.connections[-1].of("rtmp.status")
    assert (await app.event("rtmp.stop"))["reason"] in ("kicked", "completed")


@pytest.mark.parametrize("query", ["", "?start=0"])
async def test_viewer_that_reads_nothing_holds_little_and_leaving_ends_its_session(
    media_port: int, server: RtmpServer, app: ScriptedApp, file: File, query: str
) -> None:
    file.grow()
    async with Viewer(media_port, URL + query) as viewer:
        await viewer.wait_accepted()
        viewer.pause_reading()
        (connection,) = server.connections
        await becomes(lambda: connection.outlet.is_full)
        assert connection.transport.get_write_buffer_size() <= 2 * server.config.write_high_bytes
        viewer.resume_reading()
        await viewer.wait_until(lambda: viewer.over, timeout_s=20)
    async with Viewer(media_port, URL + query) as viewer:
        await viewer.wait_accepted()
    await app.event("rtmp.stop")
    assert not server.sessions


@pytest.mark.parametrize("has_begun", [False, True])
async def test_viewer_of_a_hanging_disk_gets_503_or_is_cut_off_after_the_deadline(
    serve: Serve, app: ScriptedApp, file: File, has_begun: bool
) -> None:
    """Nobody waits for it without end: who was sent nothing is told so."""
    server = await serve(config={"media": ("127.0.0.1", 0)}, disk_s=0.5)
    file.grow()
    with ExitStack() as stack:
        if not has_begun:
            stack.enter_context(hanging(server.library))
        async with Viewer(server, URL) as viewer:
            if has_begun:
                await viewer.wait_accepted()
                viewer.pause_reading()
                (connection,) = server.connections
                await becomes(lambda: connection.outlet.is_full)
                stack.enter_context(hanging(server.library))
                viewer.resume_reading()
            await viewer.wait_closed()
        assert (viewer.status, viewer.over) == ((200, False) if has_begun else (503, True))
        assert "Nothing came from the disk for 0.5 s" in (await app.event("rtmp.stop"))["description"]
