"""A packager in the test's own loop, beside the node where streams are published; and who publishes a clip there."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import httpx

from ingest.flv import TagReader
from ingest.flv.tags import Tag
from ingest.hls import HlsSettings
from ingest.packager.packager import Packager
from ingest.packager.settings import PackagerSettings
from ingest.rtmp.messages import MessageType
from ingest.server import Deadlines, RtmpServer, ServerConfig
from tests.ingest.control import APPLICATION, cluster
from tests.rtmp_client import RtmpClient

ORIGIN, PACKAGER = "node-a", "node-a-hls"
SECRET = b"of these tests"
PATIENT = 20.0
SHORT = HlsSettings(segment_target_s=1.0)
"""A segment for each group of pictures of a clip: what takes some target durations is over sooner."""
BY_SCRIPT = {"Origin": "https://church.example"}
"""As a page of another origin asks."""


@dataclass
class Running:
    origin: RtmpServer
    packager: Packager
    port: int
    http: httpx.AsyncClient

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def url(self, file: str = "index.m3u8", path: str = "live/cam1", token: str = "") -> str:
        return f"{self.base}/hls/{f'{token}/' if token else ''}{path}/{file}"

    async def get(
        self, file: str = "index.m3u8", path: str = "live/cam1", token: str = "", **options: Any
    ) -> httpx.Response:
        return await self.http.get(self.url(file, path, token), **options)

    async def variant(self, **options: Any) -> str:
        """The first media playlist's name, with its viewer, of a new viewer."""
        answer = await self.get(**options)
        assert answer.status_code == 200, answer.text
        return next(line for line in answer.text.splitlines() if line and not line.startswith("#"))


@asynccontextmanager
async def running(
    *, hls: HlsSettings | None = None, node: dict[str, Any] | None = None, end_players_s: float = 15.0, **settings: Any
) -> AsyncIterator[Running]:
    """`settings`: of `PackagerSettings`, by default with a short memory; `node`: of the origin's `ServerConfig`."""
    async with cluster(ORIGIN, **(node or {})) as (origin,):
        config = ServerConfig(node=PACKAGER, rtmp=None, deadlines=Deadlines(end_players_s=end_players_s))
        packager = Packager(
            APPLICATION, config, PackagerSettings(**({"known_s": 0.1} | settings)), hls or HlsSettings(), SECRET
        )
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        await packager.start(listener)
        try:
            async with httpx.AsyncClient(timeout=PATIENT, headers=BY_SCRIPT) as http:
                yield Running(origin, packager, port, http)
        finally:
            await packager.stop(2)


def read_tags(file: Path) -> list[Tag]:
    return [*TagReader().feed(file.read_bytes())]


class ClipPublisher:
    """Publishes a clip's tags by a client of its own, at a pace; again and again until it is closed."""

    def __init__(
        self, running: Running, secret: str, clip: Path, *, pace: float = 4.0, repeats: bool = True, at_ms: int = 0
    ) -> None:
        """`pace`: how many times faster than real time; `repeats`: False: once; `at_ms`: the first timestamp."""
        self._client = RtmpClient(port=running.origin.addresses[0][1])
        self._secret, self._pace, self._repeats, self._at_ms = secret, pace, repeats, at_ms
        self._tags = [tag for tag in read_tags(clip) if tag.type_id in (MessageType.AUDIO, MessageType.VIDEO)]
        self._task: asyncio.Task[None] | None = None
        self.sent_ms = 0

    async def __aenter__(self) -> Self:
        await self._client.open()
        await self._client.connect("live")
        self._stream_id = await self._client.publish(self._secret)
        self._task = asyncio.create_task(self._send())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._client.close()

    async def sent(self) -> None:
        """Once all of it was, if it does not repeat."""
        assert self._task is not None
        await self._task

    async def say(self, words: str, **fields: Any) -> None:
        """A text to be shown, at the time of what was sent last."""
        self._client.protocol.send_data(
            self._stream_id, self._at_ms + self.sent_ms, "onTextData", {"text": words, **fields}
        )
        await self._client.flush()

    async def _send(self) -> None:
        loop = asyncio.get_running_loop()
        length = self._tags[-1].timestamp + 33
        began, round_at = loop.time(), 0
        while True:
            for tag in self._tags:
                if round_at and tag.payload[1] == 0:
                    continue  # A header, which was sent before.
                self.sent_ms = round_at + tag.timestamp
                await asyncio.sleep(max(0.0, began + self.sent_ms / 1000 / self._pace - loop.time()))
                send = self._client.send_video if tag.type_id == MessageType.VIDEO else self._client.send_audio
                await send(self._stream_id, self._at_ms + self.sent_ms, tag.payload)
            if not self._repeats:
                return
            round_at += length
