"""What is recorded of a publisher: by real connections, read back from the files."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ingest.flv import Tag, TagReader, read_index
from ingest.flv.recording import RecordingFile, Report
from ingest.live.message import SharedMessage
from ingest.rtmp import events
from ingest.server import RtmpServer
from ingest.server.config import QUEUE, RecordingSettings
from ingest.server.recorder import Recorder, Recorders
from ingest.server.recording_writer import Order, Recording
from tests.pure.flv.files import media as flv_media
from tests.pure.flv.files import written
from tests.pure.live import payloads
from tests.pure.live.payloads import START_WALL, inter, keyframe, make_stream, publisher
from tests.rtmp_client import AUDIO, VIDEO, RtmpClient
from tests.server.app import Instance, Message, ScriptedApp
from tests.server.clients import Made, publishing
from tests.server.conftest import Serve
from tests.server.media import AAC_HEADER, AVC_HEADER, inter_frame, key_frame, sound
from tests.server.waiting import becomes, within


class Recorded:
    """A server that records into `folder`, and the events that its application received about it."""

    def __init__(self, app: ScriptedApp, serve: Serve, folder: Path) -> None:
        self.app = app
        self.folder = folder
        self._serve = serve
        self.server: RtmpServer | None = None
        self.order: dict[str, str] = {"mode": "record", "file": ""}
        """The order to record the next publisher."""
        self._told: list[Message] = []
        app.on |= {"rtmp.publish": self._accept, "rtmp.record": self._hear, "node.record": self._hear}

    async def _accept(self, instance: Instance, event: Message) -> Message:
        return await self.app.accept_publish(instance, event) | {"record": self.order}

    async def _hear(self, _instance: Instance, event: Message) -> None:
        self._told.append(event)

    async def serve(self, *, config: dict[str, Any] | None = None, **settings: Any) -> RtmpServer:
        quick = RecordingSettings(folder=self.folder, gather_s=0.02, min_free_bytes=0)
        self.server = await self._serve(config={"recording": replace(quick, **settings), **(config or {})})
        return self.server

    @asynccontextmanager
    async def session(
        self, kind: str = "record", *, name: str = "cam1", **settings: Any
    ) -> AsyncIterator[tuple[RtmpClient, int]]:
        """Yield a publisher that has sent its headers, on the running server or on one with these settings."""
        async with publishing(self.server or await self.serve(**settings), name=name, kind=kind) as (client, stream_id):
            await send_headers(client, stream_id)
            yield client, stream_id

    def told(self, state: str = "") -> list[Message]:
        """Return the events of a state, by default of all but "over"."""
        return [event for event in self._told if event["state"] == state or (not state and event["state"] != "over")]

    async def until(self, state: str, count: int = 1) -> list[Message]:
        await self.app.wait_until(lambda: len(self.told(state)) >= count)
        return self.told(state)

    def files(self) -> list[Path]:
        return sorted(path for path in self.folder.rglob("*") if path.is_file())

    def tags(self, event: Message) -> list[Tag]:
        return tags_of(self.folder / event["file"])


def tags_of(path: Path) -> list[Tag]:
    reader = TagReader()
    with path.open("rb") as stream:
        found = list(reader.read(stream))
    assert not reader.is_truncated
    return found


def media(tags: Sequence[Tag]) -> Made:
    return [(tag.type_id, tag.timestamp, tag.payload) for tag in tags if tag.type_id in (AUDIO, VIDEO)]


async def send_headers(client: RtmpClient, stream_id: int) -> None:
    await client.send_metadata(stream_id, {"width": 320.0, "encoder": "a test"})
    await client.send_video(stream_id, 0, AVC_HEADER)
    await client.send_audio(stream_id, 0, AAC_HEADER)


async def send_pictures(client: RtmpClient, stream_id: int, start_ms: int, count: int, *, gop: int = 5) -> None:
    """A picture and a sound each 40 ms, numbered from 0."""
    for number in range(count):
        picture = inter_frame(number) if number % gop else key_frame(number)
        await client.send_video(stream_id, start_ms + 40 * number, picture)
        await client.send_audio(stream_id, start_ms + 40 * number + 10, sound(number))


def statuses(client: RtmpClient) -> list[tuple[str, str]]:
    return [(event.level, event.code) for event in client.of(events.StatusReceived)]


@pytest.fixture
def recorded(app: ScriptedApp, serve: Serve, tmp_path: Path) -> Recorded:
    return Recorded(app, serve, tmp_path / "recordings")


async def publish(
    recorded: Recorded, name: str = "cam1", *, kind: str = "record", start_ms: int = 5000, count: int = 20
) -> list[tuple[str, str]]:
    """A whole session; the statuses that the publisher got."""
    async with recorded.session(kind, name=name) as (client, stream_id):
        await send_pictures(client, stream_id, start_ms, count)
        await client.wait_for(events.StatusReceived, lambda event: event.code.startswith("NetStream.Record"))
        await client.delete_stream(stream_id)
        await client.wait_for(events.StatusReceived, lambda event: event.code == "NetStream.Record.Stop")
        return statuses(client)


def sent(count: int, start_ms: int = 0) -> list[tuple[int, int, bytes]]:
    found = []
    for number in range(count):
        at = start_ms + 40 * number
        found.append((VIDEO, at, inter_frame(number) if number % 5 else key_frame(number)))
        found.append((AUDIO, at + 10, sound(number)))
    return found


HEADERS = [(VIDEO, 0, AVC_HEADER), (AUDIO, 0, AAC_HEADER)]


async def test_a_session_is_recorded_whole(recorded: Recorded) -> None:
    codes = ("Publish.Start", "Record.Start", "Unpublish.Success", "Record.Stop")
    assert await publish(recorded) == [("status", f"NetStream.{code}") for code in codes]
    (closed,) = await recorded.until("closed")
    assert media(recorded.tags(closed)) == HEADERS + sent(20)
    assert closed["name"] == "cam1"
    assert closed["duration_ms"] == 19 * 40 + 10
    assert closed["size_bytes"] == recorded.files()[0].stat().st_size
    assert closed["dropped_frames"] == 0
    (started,) = recorded.told("started")
    assert started["file"] == closed["file"]
    assert not started["is_continued"]
    with (recorded.folder / closed["file"]).open("rb") as stream:  # By its index players seek in it.
        index = read_index(stream)
        assert index.metadata["filesize"] == closed["size_bytes"]
        assert index.metadata["encoder"] == "a test"
        assert index.metadata["keyframes"]["times"] == pytest.approx([0, 0.2, 0.4, 0.6])
        point = index.at_or_before(450)
    assert point is not None
    assert point.time_ms == 400


async def test_later_metadata_are_recorded_with_timestamp_0(recorded: Recorded) -> None:
    """FFmpeg makes a track of subtitles of those that have one."""
    async with recorded.session() as (client, stream_id):
        await send_pictures(client, stream_id, 0, 10)
        await client.send_metadata(stream_id, {"width": 640.0})
        client.protocol.send_data(stream_id, 0, "onCuePoint", {"name": "goal"})
        await send_pictures(client, stream_id, 400, 10)
        await client.delete_stream(stream_id)
    (closed,) = await recorded.until("closed")
    told = [tag.timestamp for tag in recorded.tags(closed) if tag.type_id not in (AUDIO, VIDEO)]
    assert told == [0, 0, 370], "the file's own, that of later, and what happened at a time"
    assert media(recorded.tags(closed)) == HEADERS + sent(10) + sent(10, 400)
    with (recorded.folder / closed["file"]).open("rb") as stream:
        assert read_index(stream).metadata["keyframes"]["times"] == pytest.approx([0, 0.2, 0.4, 0.6])


async def test_another_recording_of_the_name_has_a_file_of_its_own(recorded: Recorded) -> None:
    for count in (5, 10):
        await publish(recorded, count=count)
    first, second = await recorded.until("closed", 2)
    assert first["file"] != second["file"]
    assert len(media(recorded.tags(first))) == 2 + 10
    assert len(media(recorded.tags(second))) == 2 + 20


async def test_append_continues_the_existing_file_and_its_timestamps(recorded: Recorded) -> None:
    await publish(recorded, count=5, start_ms=70_000)
    (first,) = await recorded.until("closed")
    recorded.order = {"mode": "append", "file": first["file"]}
    await publish(recorded, count=5, start_ms=3)
    closed = (await recorded.until("closed", 2))[-1]
    assert closed["file"] == first["file"]
    end = 4 * 40 + 10
    again = [(kind, end + 40, payload) for kind, _, payload in HEADERS]
    assert media(recorded.tags(closed)) == HEADERS + sent(5) + again + sent(5, end + 40)
    assert closed["duration_ms"] == 2 * end + 40
    assert recorded.told("started")[-1]["is_continued"]


async def test_append_waits_for_the_session_before_it(recorded: Recorded) -> None:
    """An encoder that comes back at once: the former session's file is still being closed."""
    recorded.order = {"mode": "append", "file": ""}
    for _ in range(2):
        async with recorded.session("append", gather_s=0.3) as (client, stream_id):
            await send_pictures(client, stream_id, 0, 5)
            await client.delete_stream(stream_id)
            await client.wait_for(events.StatusReceived, lambda event: event.code == "NetStream.Unpublish.Success")
    closed = await recorded.until("closed", 2)
    assert len(recorded.files()) == 1
    times = [time for _, time, _ in media(recorded.tags(closed[-1]))]
    assert times == sorted(times)
    assert len(times) == 2 * (2 + 10)


async def test_publisher_without_media_leaves_no_recording(recorded: Recorded) -> None:
    server = await recorded.serve()
    async with recorded.session() as (client, stream_id):
        await client.delete_stream(stream_id)
        await recorded.app.event("rtmp.unpublish")
    await server.stop()
    assert recorded.files() == []
    assert recorded.told() == []
    assert len(recorded.told("over")) == 1


async def test_recording_is_rotated_into_files_that_each_begin_with_a_keyframe(recorded: Recorded) -> None:
    recorded.order = {"mode": "all", "file": ""}
    async with recorded.session(rotate_bytes=80_000) as (client, stream_id):  # The room for the index has 74 KiB.
        await send_pictures(client, stream_id, 1000, 40)
        await client.wait_for(events.StatusReceived, lambda event: event.code == "NetStream.Record.Start")
        await client.delete_stream(stream_id)
        await recorded.until("closed", 2)
        got = statuses(client)
    closed = recorded.told("closed")
    assert len(closed) == len(recorded.files()) >= 2
    assert len({event["name"] for event in closed}) == len(closed)
    assert all(event["name"].startswith("cam1-20") for event in closed)
    frames = []
    for event in closed:
        tags = media(recorded.tags(event))
        assert tags[:2] == HEADERS
        assert tags[2][1] == 0
        assert tags[2][2].startswith(b"\x17\x01")
        frames += [payload for _, _, payload in tags[2:]]
    assert frames == [payload for _, _, payload in sent(40)]
    assert [code for _, code in got].count("NetStream.Record.Start") == 1


async def test_a_file_plays_while_it_is_written(recorded: Recorded) -> None:
    """As after the death of the process: whole tags, up to what was sent a moment ago."""
    async with recorded.session() as (client, stream_id):
        await send_pictures(client, stream_id, 0, 10)
        (started,) = await recorded.until("started")
        path = recorded.folder / started["file"]

        async def duration_ms() -> int:
            with path.open("rb") as stream:
                return read_index(stream).duration_ms

        assert await within(5, duration_ms, 9 * 40 + 10) == 9 * 40 + 10


async def test_audio_only_publisher_is_recorded(recorded: Recorded) -> None:
    server = await recorded.serve()
    async with publishing(server, name="radio", kind="record") as (client, stream_id):
        await client.send_audio(stream_id, 0, AAC_HEADER)
        for number in range(5):
            await client.send_audio(stream_id, 900 + 23 * number, sound(number))
        await client.delete_stream(stream_id)
        (closed,) = await recorded.until("closed")
    expected = [(AUDIO, 0, AAC_HEADER), *((AUDIO, 23 * number, sound(number)) for number in range(5))]
    assert media(recorded.tags(closed)) == expected


async def test_recording_without_keyframes_is_rotated_after_ten_seconds(recorded: Recorded) -> None:
    recorded.order = {"mode": "all", "file": ""}
    async with recorded.session(rotate_bytes=1) as (client, stream_id):
        await send_pictures(client, stream_id, 0, 1)
        for number in range(12):  # Not before the tenth second: keyframes may be as far apart.
            await client.send_audio(stream_id, 1000 * number + 500, sound(number))
        await client.delete_stream(stream_id)
        closed = await recorded.until("closed", 3)
    frames = [[tag.timestamp for tag in recorded.tags(event)[3:]] for event in closed]
    assert [times[0] for times in frames] == [0, 0, 0]
    assert frames[0][-1] == 9500


async def test_recordings_of_unusual_names_stay_in_the_folder_of_their_app(recorded: Recorded) -> None:
    names = ["..;x", "ü:*!", "n" * 250, ".hidden"]
    for name in names:
        await publish(recorded, name, count=2)
    closed = await recorded.until("closed", len(names))
    assert [event["name"] for event in closed] == names
    for event in closed:
        path = Path(event["file"])
        assert path.parts[0] == "live"
        assert len(path.parts) == 2
        assert not path.name.startswith(".")
        assert (recorded.folder / path).is_file()


FORMER = "live/cam1-20261121T000000Z.flv"


@pytest.fixture
def former(recorded: Recorded) -> Path:
    """A recording of some seconds that was left open, and which the next publisher is ordered to continue."""
    path = recorded.folder / FORMER
    path.parent.mkdir(parents=True)
    path.write_bytes(written(flv_media(60), finished=False).getvalue())
    recorded.order = {"mode": "append", "file": FORMER}
    return path


@contextmanager
def elsewhere(path: Path) -> Iterator[RecordingFile]:
    """Somebody else has the file, as the recovery after a restart has it."""
    file = RecordingFile.continuing(path)
    try:
        yield file
    finally:
        file.finish()


async def append(recorded: Recorded) -> Message:
    """Half a second, appended; the event of its end."""
    count = len(recorded.told("closed"))
    await publish(recorded, kind="append", start_ms=0, count=12)
    return (await recorded.until("closed", count + 1))[-1]


async def test_append_waits_until_another_writer_has_closed_the_file(recorded: Recorded, former: Path) -> None:
    server = await recorded.serve()
    assert server.recorders is not None
    async with RtmpClient(port=server.addresses[0][1]) as client:
        with elsewhere(former) as file:
            await client.connect("live")
            stream_id = await client.publish("cam1", "append")
            await send_headers(client, stream_id)
            await send_pictures(client, stream_id, 0, 12)
            (recorder,) = server.recorders._recorders

            await becomes(lambda: recorder.recording._waits_until is not None)
            assert recorded.told() == []
            duration_ms = file.duration_ms
        await recorded.until("started")
        await client.delete_stream(stream_id)
        (closed,) = await recorded.until("closed")
    assert (closed["file"], closed["name"], closed["is_continued"]) == (FORMER, "cam1", True)
    assert closed["duration_ms"] == duration_ms + 40 + 11 * 40 + 10
    assert recorded.files() == [former]


async def test_append_to_a_file_with_another_writer_goes_to_a_new_file(recorded: Recorded, former: Path) -> None:
    await recorded.serve(lock_s=0.05)
    with elsewhere(former) as file:
        duration_ms = file.duration_ms
        beside = await append(recorded)
    assert beside["name"].startswith("cam1-20")
    assert not beside["is_continued"]
    assert beside["duration_ms"] == 11 * 40 + 10
    continued = await append(recorded)
    assert (continued["file"], continued["name"]) == (FORMER, "cam1")
    assert continued["duration_ms"] == duration_ms + 40 + 11 * 40 + 10
    assert len(recorded.files()) == 2


@pytest.mark.parametrize("content", [b"", bytes(5000), b"These are notes, and they stay."])
async def test_append_to_a_file_that_is_no_recording_begins_a_new_file(
    recorded: Recorded, former: Path, content: bytes
) -> None:
    """Such as a loss of power leaves behind."""
    await asyncio.to_thread(former.write_bytes, content)
    closed = await append(recorded)
    assert (closed["name"], closed["is_continued"]) == ("cam1", False)
    assert len(media(recorded.tags(closed))) == 2 + 24
    assert await asyncio.to_thread(former.read_bytes) == content
    assert recorded.told("failed") == []


@pytest.mark.parametrize(("keyframes", "expected"), [((), inter(110)), ((0,), keyframe(0)), ((7,), keyframe(70))])
async def test_recording_begins_at_a_keyframe_or_without_one_after_a_wait(
    tmp_path: Path, keyframes: tuple[int, ...], expected: bytes
) -> None:
    """`keyframes`: with which seconds one comes."""
    reports: list[Report] = []
    settings = RecordingSettings(folder=tmp_path, min_free_bytes=0, queue=replace(QUEUE, seconds=60.0))
    recorders = Recorders(settings, lambda _event: True)
    stream = make_stream()
    stream.start(publisher(), 0.0)
    stream.video(0, payloads.AVC_HEADER, 0.0)
    recorder: Recorder = recorders.begin(Order("live", "demo", "record"), stream, reports.append)
    for number in range(130):
        at = number / 10
        make = keyframe if number in [10 * second for second in keyframes] else inter
        stream.video(100 * number, make(number), at)
        if number % 10 == 9:
            stream.tick(at + 0.1, START_WALL + at)
    recorder.stop()
    await recorders.close(5.0)
    (closed,) = [report for report in reports if report.state == "closed"]
    tags = media(tags_of(tmp_path / closed.file))
    assert [payload for _, _, payload in tags][:2] == [payloads.AVC_HEADER, expected]
    assert tags[-1][2] == inter(129)


async def test_recorder_begun_as_the_former_one_ends_runs_to_its_own_end(tmp_path: Path) -> None:
    stream, order = make_stream(), Order("live", "demo", "append")
    recorders = Recorders(RecordingSettings(folder=tmp_path, gather_s=0.02, min_free_bytes=0), lambda event: True)
    followers: list[Recorder] = []
    states: list[str] = []

    def ended(report: Report) -> None:
        if report.state == "over":  # Its task is at its end, but not over.
            followers.append(recorders.begin(order, stream, lambda report: states.append(report.state)))

    recorders.begin(order, stream, ended).stop()
    await becomes(lambda: followers)
    followers[0].stop()
    await becomes(lambda: states == ["over"])
    await recorders.close(5)


@pytest.mark.parametrize(
    ("keyframes", "expected"),
    [
        ((0, 2, 4, 38, 70), [keyframe(2), keyframe(4), keyframe(38), keyframe(70)]),
        ((0, 2, 4), [keyframe(2), keyframe(4), *(inter(at) for at in range(65, 90))]),
        ((0,), [inter(at) for at in range(61, 90)]),
        ((), [inter(at) for at in range(1, 90)]),
    ],
    ids=["still scenes", "none any more", "none but the first", "none"],
)
def test_a_full_file_is_followed_by_one_that_begins_with_a_keyframe(
    tmp_path: Path, keyframes: tuple[int, ...], expected: list[bytes]
) -> None:
    """As long as one comes each minute. `keyframes`: in which seconds; each file is full with its first picture."""
    settings = RecordingSettings(folder=tmp_path, min_free_bytes=0, rotate_bytes=1)
    recording = Recording(Order("live", "demo", "all"), settings)
    pictures = [
        SharedMessage("video", 1000 * at, (keyframe if at in keyframes else inter)(at), at, True, at in keyframes)
        for at in range(90)
    ]
    reports = recording.write(pictures, 0) + recording.close(0)
    files = [report.file for report in reports if report.state == "started"]
    first, *others = [media(tags_of(tmp_path / file))[0][2] for file in files]
    assert (first, others) == (pictures[0].payload, expected)
