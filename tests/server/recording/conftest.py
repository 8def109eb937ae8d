"""Recording through the server's own sockets: an application that orders it, and a publisher of numbered frames."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ingest.flv import Tag, TagReader
from ingest.rtmp import events
from ingest.server import RtmpServer
from ingest.server.config import RecordingSettings
from tests.rtmp_client import RtmpClient
from tests.server.app import Instance, Message, ScriptedApp
from tests.server.clients import publishing
from tests.server.conftest import Serve
from tests.server.media import AAC_HEADER, AVC_HEADER, inter_frame, key_frame, sound

AUDIO, VIDEO, DATA = 8, 9, 18


class Recorded:
    """A server that records into `folder`, and what its application was told of it."""

    def __init__(self, app: ScriptedApp, serve: Serve, folder: Path) -> None:
        self.app = app
        self.folder = folder
        self._serve = serve
        self.server: RtmpServer | None = None
        self.order: dict[str, str] = {"mode": "record", "file": ""}
        """What the next publisher is ordered to be recorded as."""
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
        """A publisher that has sent its headers, on the server that there is, or one with such settings."""
        async with publishing(self.server or await self.serve(**settings), name=name, kind=kind) as (client, stream_id):
            await send_headers(client, stream_id)
            yield client, stream_id

    def told(self, state: str = "") -> list[Message]:
        """What the applications, a connection's or the node's, heard of recordings; without a state: of files."""
        return [event for event in self._told if event["state"] == state or (not state and event["state"] != "over")]

    async def until(self, state: str, count: int = 1, timeout_s: float = 5.0) -> list[Message]:
        await self.app.wait_until(lambda: len(self.told(state)) >= count, timeout_s)
        return self.told(state)

    def files(self) -> list[Path]:
        return sorted(path for path in self.folder.rglob("*") if path.is_file())

    def tags(self, event: Message) -> list[Tag]:
        """Of the file that the application was told of."""
        return tags_of(self.folder / event["file"])


def tags_of(path: Path) -> list[Tag]:
    reader = TagReader()
    with path.open("rb") as stream:
        found = list(reader.read(stream))
    assert not reader.is_truncated
    return found


def media(tags: Sequence[Tag]) -> list[tuple[int, int, bytes]]:
    """Type, time and payload of audio and video."""
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
