"""Recording with the project's own application and database behind the sockets: policies, rows, events, recovery."""

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from ingest.consumers import recordings as consumer
from ingest.flv import read_index
from ingest.models import Application, Node, Recording, Session, StatusEvent
from ingest.rtmp import events
from ingest.server.config import RecordingSettings
from ingest.services import recordings
from ingest.services.history_writer import HistoryWriter
from ingest.services.keys import NewKey
from tests.ingest.control import NODE, listening
from tests.ingest.faults import ended_process
from tests.ingest.recordings.conftest import files, flv
from tests.ingest.ticks import until
from tests.rtmp_client import RtmpClient
from tests.server.recording.test_recording import send_headers, send_pictures, statuses

Publishing = tuple[RtmpClient, int]

pytestmark = pytest.mark.django_db(transaction=True)


def quick(folder: Path) -> dict[str, Any]:
    return {"recording": RecordingSettings(folder=folder, gather_s=0.02, min_free_bytes=0)}


@asynccontextmanager
async def publishing(
    port: int, key: NewKey, kind: str = "record", *, at: int = 0, count: int = 10
) -> AsyncIterator[Publishing]:
    """An encoder, and its message stream, with headers and so many pictures, 40 ms each."""
    async with RtmpClient(port=port) as encoder:
        await encoder.connect("live")
        stream_id = await encoder.publish(key.secret, kind)
        await send_headers(encoder, stream_id)
        await send_pictures(encoder, stream_id, at, count)
        yield encoder, stream_id


async def publish(port: int, key: NewKey, kind: str, *, count: int = 10) -> list[tuple[str, str]]:
    """A whole session; what its encoder was told."""
    async with publishing(port, key, kind, at=500, count=count) as (encoder, stream_id):
        if kind != "live":
            await encoder.wait_for(events.StatusReceived, lambda event: event.code.startswith("NetStream.Record"))
        await encoder.delete_stream(stream_id)
        await encoder.wait_for(events.StatusReceived, lambda event: event.code == "NetStream.Unpublish.Success")
        return statuses(encoder)


def complete(count: int) -> Any:
    return lambda: Recording.objects.filter(state="complete").count() == count


@pytest.mark.both_forms
async def test_a_recording_has_a_row_and_its_session_has_events(
    process: HistoryWriter, key: NewKey, folder: Path
) -> None:
    async with listening(**quick(folder)) as port:
        await publish(port, key, "record")
        await until(complete(1))
    row = await Recording.objects.select_related("application", "stream", "session", "node").aget()
    assert (row.application.name, row.name, row.stream, row.keep) == ("live", "cam1", key.key.stream, False)
    assert row.session == await Session.objects.aget()
    assert row.node == await Node.objects.aget()
    path = recordings.path_of(row)
    assert row.size_bytes == path.stat().st_size
    assert row.duration_ms == 9 * 40 + 10
    assert row.ended_at is not None
    assert row.started_at < row.ended_at
    happened = [event async for event in StatusEvent.objects.filter(kind__startswith="record.").order_by("sequence")]
    assert [(event.kind, event.level) for event in happened] == [
        ("record.started", "status"),
        ("record.closed", "status"),
    ]
    assert happened[-1].detail["file"] == row.file
    assert not consumer.WRITING


@pytest.mark.both_forms
async def test_record_replaces_and_append_goes_on(process: HistoryWriter, key: NewKey, folder: Path) -> None:
    async with listening(**quick(folder)) as port:
        await publish(port, key, "record", count=20)
        await until(complete(1))
        first = await Recording.objects.aget()
        await publish(port, key, "append", count=5)
        # What is begun says how long it is by then: that may be longer already, and is not the end.
        await until(Recording.objects.filter(state="complete", duration_ms__gt=first.duration_ms).exists)
        appended = await Recording.objects.aget()
        assert appended.pk == first.pk
        assert appended.duration_ms == (19 * 40 + 10) + 40 + (4 * 40 + 10)
        assert appended.session_id != first.session_id
        await publish(port, key, "record", count=3)
        # The node tidies up too: what is replaced may be gone by then.
        await until(Recording.objects.filter(state="complete").exclude(pk=first.pk).exists)
        await sync_to_async(recordings.tidy)(now=appended.started_at, days=0, gib=0)
    row = await Recording.objects.aget()
    assert row.pk != first.pk
    assert row.duration_ms == 2 * 40 + 10
    assert files(folder) == [row.file]


@pytest.mark.parametrize("policy", ["requested", "all"])
@pytest.mark.parametrize("ending", ["deleteStream", "its connection"])
async def test_a_session_that_ends_before_anything_is_written_has_its_row(
    process: HistoryWriter, key: NewKey, folder: Path, policy: str, ending: str
) -> None:
    await Application.objects.aupdate(record=policy)
    async with listening(recording=RecordingSettings(folder, gather_s=0.5, min_free_bytes=0)) as port:
        async with publishing(port, key) as (encoder, stream_id):
            if ending == "deleteStream":
                await encoder.delete_stream(stream_id)
                await encoder.wait_for(events.StatusReceived, lambda event: "Unpublish" in event.code)
        await until(complete(1))
        await until(lambda: not consumer.WRITING)
    row = await Recording.objects.aget()
    assert (row.session_id, row.duration_ms) == ((await Session.objects.aget()).pk, 9 * 40 + 10)
    assert await StatusEvent.objects.filter(kind="record.closed").acount() == 1


async def test_a_fault_of_the_recorder_ends_the_recording_and_its_row_says_so(
    process: HistoryWriter, key: NewKey, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fault(*_: object) -> None:
        raise RuntimeError

    async with listening(**quick(folder)) as port, publishing(port, key) as (encoder, stream_id):
        await until(lambda: Recording.objects.exists())
        monkeypatch.setattr("ingest.server.recording_writer.Recording._put", fault)
        await send_pictures(encoder, stream_id, 400, 10)
        await until(lambda: Recording.objects.filter(state="failed").exists())
        await until(lambda: not consumer.WRITING)
    row = await Recording.objects.aget()
    assert "RuntimeError" in row.description
    await sync_to_async(recordings.delete)(row)


@pytest.mark.parametrize(
    ("policy", "kind", "count", "told"),
    [
        ("none", "live", 0, None),
        ("none", "record", 0, ("warning", "NetStream.Record.NoAccess")),
        ("none", "append", 0, ("warning", "NetStream.Record.NoAccess")),
        ("requested", "live", 0, None),
        ("requested", "append", 1, ("status", "NetStream.Record.Start")),
        ("all", "record", 1, ("status", "NetStream.Record.Start")),
    ],
)
async def test_record_policy_decides_whether_a_session_is_recorded(
    process: HistoryWriter, key: NewKey, folder: Path, policy: str, kind: str, count: int, told: tuple[str, str] | None
) -> None:
    await Application.objects.aupdate(record=policy)
    async with listening(**quick(folder)) as port:
        got = await publish(port, key, kind)
        await until(complete(count))
    assert got[0] == ("status", "NetStream.Publish.Start")
    recorded = [status for status in got if "Record" in status[1]]
    assert recorded[:1] == ([told] if told else [])
    assert not [level for level, _ in got if level == "error"]
    assert await Recording.objects.acount() == count
    if policy == "all":
        assert (await Recording.objects.aget()).name.startswith("cam1-20")


async def test_a_failure_is_an_event_of_level_error(process: HistoryWriter, key: NewKey, folder: Path) -> None:
    settings = RecordingSettings(folder=folder, gather_s=0.02, min_free_bytes=2**60)
    async with listening(recording=settings) as port:
        got = await publish(port, key, "record")
        await until(lambda: StatusEvent.objects.filter(kind="record.failed").exists())
    assert ("warning", "NetStream.Record.DiskQuotaExceeded") in got
    event = await StatusEvent.objects.aget(kind="record.failed")
    assert (event.level, event.code) == ("error", "NetStream.Record.DiskQuotaExceeded")
    assert "MiB free" in event.description
    assert await Recording.objects.acount() == 0


@pytest.mark.both_forms
async def test_a_node_closes_at_its_start_what_its_former_process_left(
    process: HistoryWriter, key: NewKey, folder: Path
) -> None:
    node = await Node.objects.acreate(name=NODE, process=ended_process())
    other = await Node.objects.acreate(name="other")
    now = time.time()
    for number, (owner, content) in enumerate(((node, flv(3, finished=False)[:-40]), (other, b""), (node, None))):
        file = f"live/left-{number}.flv"
        if content is not None:
            (folder / file).write_bytes(content)
            os.utime(folder / file, (now - 3600, now - 3600))  # The server was down for an hour.
        await Recording.objects.acreate(
            application=key.key.stream.application,
            stream=key.key.stream,
            node=owner,
            name=f"left-{number}",
            file=file,
            started_at=datetime.fromtimestamp(now - 3700, UTC),
        )
    async with listening(**quick(folder)):
        await until(lambda: Recording.objects.filter(state="recording").count() == 1)
    rows = {row.name: row async for row in Recording.objects.all()}
    assert rows["left-1"].state == "recording"
    assert (rows["left-2"].state, rows["left-2"].description) == ("failed", "Its file is missing.")
    mended = rows["left-0"]
    assert (mended.state, mended.description) == ("complete", recordings.RECOVERED)
    assert mended.duration_ms == 2807
    assert mended.ended_at is not None
    assert mended.ended_at.timestamp() == pytest.approx(now - 3600, abs=0.1), "when it was last written"
    with (folder / mended.file).open("rb") as stream:
        index = read_index(stream)
    assert not index.is_truncated
    assert index.metadata["duration"] == 2.807


async def test_recording_that_is_being_written_is_not_recovered(
    process: HistoryWriter, key: NewKey, folder: Path
) -> None:
    """An encoder that is back before its node has looked: the file has a writer, which a lock tells."""
    async with listening(**quick(folder)) as port, publishing(port, key) as (encoder, stream_id):
        await until(lambda: Recording.objects.exists())
        row = await Recording.objects.aget()
        assert not await sync_to_async(recordings.recover)(row)
        assert (await Recording.objects.aget()).state == "recording"
        await send_pictures(encoder, stream_id, 400, 10)
        await encoder.delete_stream(stream_id)
        await until(complete(1))
    assert (await Recording.objects.aget()).duration_ms == 19 * 40 + 10
