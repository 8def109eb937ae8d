"""A packager in the test's own loop, next to the node where streams are published, and a publisher of clips."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import httpx

from ingest.flv import TagReader
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
"""A segment for each group of pictures of a clip, so that some target durations are over sooner."""
BY_SCRIPT = {"Origin": "https://church.example"}
"""The header of a page of another origin."""


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


@asynccontextmanager
async def running(
    *, hls: HlsSettings | None = None, end_players_s: float = 15.0, **settings: Any
) -> AsyncIterator[Running]:
    """`settings`: of `PackagerSettings`, by default with a short memory."""
    async with cluster(ORIGIN) as (origin,), httpx.AsyncClient(timeout=PATIENT, headers=BY_SCRIPT) as http:
        config = ServerConfig(node=PACKAGER, rtmp=None, deadlines=Deadlines(end_players_s=end_players_s))
        packager = Packager(
            APPLICATION, config, PackagerSettings(**({"known_s": 0.1} | settings)), hls or HlsSettings(), SECRET
        )
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        await packager.start(listener)
        try:
            yield Running(origin, packager, port, http)
        finally:
            await http.aclose()
            await packager.stop(2)


class ClipPublisher(RtmpClient):
    """Publishes a clip again and again, or once, until it is closed.

    Args:
        pace: 1.0 is real time.
        at_ms: The first timestamp.
    """

    def __init__(
        self, running: Running, secret: str, clip: Path, *, pace: float = 4.0, repeats: bool = True, at_ms: int = 0
    ) -> None:
        super().__init__(port=running.origin.addresses[0][1])
        self._secret, self._pace, self._repeats, self._at_ms = secret, pace, repeats, at_ms
        tags = TagReader().feed(clip.read_bytes())
        self._tags = [tag for tag in tags if tag.type_id in (MessageType.AUDIO, MessageType.VIDEO)]
        self._sent_ms = 0

    async def __aenter__(self) -> Self:
        await self.open()
        await self.connect("live")
        self._stream_id = await self.publish(self._secret)
        self._sending = asyncio.create_task(self._send())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._sending.cancel()
        await asyncio.gather(self._sending, return_exceptions=True)
        await self.close()

    async def sent(self) -> None:
        """Wait until all of the clip was sent, once."""
        await self._sending

    async def say(self, words: str, **fields: Any) -> None:
        """Send a text to be shown at the time of the last frame."""
        text = {"text": words, **fields}
        self.protocol.send_data(self._stream_id, self._at_ms + self._sent_ms, "onTextData", text)
        await self.flush()

    async def _send(self) -> None:
        loop = asyncio.get_running_loop()
        began, round_ms = loop.time(), 0
        while self._repeats or not round_ms:
            for tag in self._tags:
                if round_ms and tag.payload[1] == 0:
                    continue  # A sequence header, which was sent before.
                self._sent_ms = round_ms + tag.timestamp
                await asyncio.sleep(max(0.0, began + self._sent_ms / 1000 / self._pace - loop.time()))
                send = self.send_video if tag.type_id == MessageType.VIDEO else self.send_audio
                await send(self._stream_id, self._at_ms + self._sent_ms, tag.payload)
            round_ms += self._tags[-1].timestamp + 33
