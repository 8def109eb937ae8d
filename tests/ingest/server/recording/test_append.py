"""To append where the file can't be gone on with: it has another writer, or is no recording."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ingest.flv.recording import RecordingFile
from ingest.rtmp import events
from tests.ingest.flv.files import media, written
from tests.ingest.server.app import Message
from tests.ingest.server.recording.conftest import Recorded, send_headers, send_pictures
from tests.ingest.server.recording.conftest import media as media_of
from tests.ingest.server.waiting import within
from tests.rtmp_client import RtmpClient

FORMER = "live/cam1-20261121T000000Z.flv"


@pytest.fixture
def former(recorded: Recorded) -> Path:
    """A recording of some seconds that was left open, and which the next publisher is ordered to continue."""
    path = recorded.folder / FORMER
    path.parent.mkdir(parents=True)
    path.write_bytes(written(media(60), finished=False).getvalue())
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


async def append(recorded: Recorded, port: int) -> Message:
    """Half a second, appended; the event of its end."""
    count = len(recorded.told("closed"))
    async with RtmpClient(port=port) as client:
        await client.connect("live")
        stream_id = await client.publish("cam1", "append")
        await send_headers(client, stream_id)
        await send_pictures(client, stream_id, 0, 12)
        await client.wait_for(events.StatusReceived, lambda event: event.code.startswith("NetStream.Record"))
        await client.delete_stream(stream_id)
        return (await recorded.until("closed", count + 1))[-1]


async def test_a_file_that_is_still_being_closed_is_waited_for(recorded: Recorded, former: Path) -> None:
    server = await recorded.serve()
    assert server.recorders is not None
    async with RtmpClient(port=server.addresses[0][1]) as client:
        with elsewhere(former) as file:
            await client.connect("live")
            stream_id = await client.publish("cam1", "append")
            await send_headers(client, stream_id)
            await send_pictures(client, stream_id, 0, 12)
            (recorder,) = server.recorders._recorders

            async def is_waiting() -> bool:
                return recorder.recording._waits_until is not None

            assert await within(5, is_waiting, True)
            assert recorded.told() == []
            duration_ms = file.duration_ms
        await recorded.until("started")
        await client.delete_stream(stream_id)
        (closed,) = await recorded.until("closed")
    assert (closed["file"], closed["name"], closed["is_continued"]) == (FORMER, "cam1", True)
    assert closed["duration_ms"] == duration_ms + 40 + 11 * 40 + 10
    assert recorded.files() == [former]


async def test_what_is_appended_to_a_file_with_another_writer_is_beside_it(recorded: Recorded, former: Path) -> None:
    server = await recorded.serve(lock_s=0.05)
    port = server.addresses[0][1]
    with elsewhere(former) as file:
        duration_ms = file.duration_ms
        beside = await append(recorded, port)
    assert beside["name"].startswith("cam1-20")
    assert not beside["is_continued"]
    assert beside["duration_ms"] == 11 * 40 + 10
    continued = await append(recorded, port)
    assert (continued["file"], continued["name"]) == (FORMER, "cam1")
    assert continued["duration_ms"] == duration_ms + 40 + 11 * 40 + 10
    assert len(recorded.files()) == 2


@pytest.mark.parametrize("content", [b"", bytes(5000), b"These are notes, and they stay."])
async def test_in_place_of_what_is_no_recording_a_new_one_begins(
    recorded: Recorded, former: Path, content: bytes
) -> None:
    """Such as a loss of power leaves behind."""
    await asyncio.to_thread(former.write_bytes, content)
    server = await recorded.serve()
    closed = await append(recorded, server.addresses[0][1])
    assert (closed["name"], closed["is_continued"]) == ("cam1", False)
    assert len(media_of(recorded.tags(closed))) == 2 + 24
    assert await asyncio.to_thread(former.read_bytes) == content
    assert recorded.told("failed") == []
