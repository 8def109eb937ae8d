"""Viewers by HTTP and by WebSocket, and the FLV that they receive."""

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import h11
from wsproto import ConnectionType, WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, RejectConnection, RejectData, Request

from ingest.flv.tags import Tag, TagReader
from ingest.server import RtmpServer
from tests.rtmp_client import Client
from tests.server.clients import At


class Browser(Client):
    """Base class of viewers. They collect FLV tags in `tags`."""

    request: bytes

    def __init__(self, at: At) -> None:
        super().__init__(port=at.bound["http"][0][1] if isinstance(at, RtmpServer) else at)
        self.status = 0
        self.tags: list[Tag] = []
        self._tag_reader = TagReader()

    def to_send(self) -> bytes:
        return self.request

    async def wait_accepted(self) -> None:
        await self.wait_until(lambda: self.status in (200, 101))

    async def wait_tags(self, count: int) -> list[Tag]:
        await self.wait_until(lambda: len(self.tags) >= count)
        return self.tags


class Viewer(Browser):
    """A viewer by HTTP. `over` is True once the response has ended."""

    def __init__(self, at: At, target: str, *, method: str = "GET", headers: dict[str, str] | None = None) -> None:
        super().__init__(at)
        given = [("Host", f"127.0.0.1:{self.port}"), ("User-Agent", "tests/1"), *(headers or {}).items()]
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self.over = False
        self._h11 = h11.Connection(h11.CLIENT)
        self.request = self._h11.send(h11.Request(method=method, target=target, headers=given))
        self.request += self._h11.send(h11.EndOfMessage())

    def take(self, data: bytes) -> None:
        if self.over:
            return
        self._h11.receive_data(data)
        while (event := self._h11.next_event()) is not h11.NEED_DATA:
            if isinstance(event, h11.Response):
                self.status = event.status_code
                self.headers = {name.decode(): value.decode() for name, value in event.headers}
            elif isinstance(event, h11.Data):
                self.body += event.data
                if self.status == 200 and self.headers.get("content-type") == "video/x-flv":
                    self.tags += self._tag_reader.feed(bytes(event.data))
            else:
                self.over = isinstance(event, h11.EndOfMessage)
                return

    @property
    def detail(self) -> str:
        return str(json.loads(self.body)["detail"])


async def ask(at: At, target: str, **options: Any) -> Viewer:
    """Send a request and read its response to the end."""
    async with Viewer(at, target, **options) as viewer:
        await viewer.wait_closed()
    return viewer


class SocketViewer(Browser):
    """A viewer by WebSocket."""

    def __init__(self, at: At, target: str, *, origin: str = "") -> None:
        super().__init__(at)
        self.refusal = bytearray()
        self.close_code: int | None = None
        self.ws = WSConnection(ConnectionType.CLIENT)
        self._message = bytearray()
        extra = [(b"Origin", origin.encode())] if origin else []
        self.request = self.ws.send(Request(host=f"127.0.0.1:{self.port}", target=target, extra_headers=extra))

    def take(self, data: bytes) -> None:
        self.ws.receive_data(data)
        for event in self.ws.events():
            match event:
                case AcceptConnection():
                    self.status = 101
                case RejectConnection():
                    self.status = event.status_code
                case RejectData():
                    self.refusal += event.data
                case BytesMessage():
                    self._message += event.data
                    if event.message_finished:
                        self.tags += self._tag_reader.feed(bytes(self._message))
                        self._message.clear()
                case CloseConnection():
                    self.close_code = int(event.code)
                    if self.ws.state is ConnectionState.REMOTE_CLOSING:
                        self._writer.write(self.ws.send(event.response()))


@contextlib.asynccontextmanager
async def both(at: At, target: str, tags: int = 0) -> AsyncIterator[tuple[Viewer, SocketViewer]]:
    """Yield a viewer by HTTP and one by WebSocket of the same stream, once they have this many tags."""
    async with Viewer(at, target) as by_http, SocketViewer(at, target) as by_socket:
        for viewer in (by_http, by_socket):
            await viewer.wait_accepted()
            await viewer.wait_tags(tags)
        yield by_http, by_socket
