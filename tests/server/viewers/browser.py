"""Viewers' programs in asyncio: they read FLV by an HTTP request or by a WebSocket."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any, Self

import h11
from wsproto import ConnectionType, WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, RejectConnection, RejectData, Request

from ingest.flv.tags import Tag, TagReader
from ingest.server import RtmpServer
from tests.rtmp_client import NEVER_FULL


class Browser:
    """Base class of viewers by HTTP and by WebSocket. `closed`: the server closed the connection."""

    def __init__(self, at: int | RtmpServer) -> None:
        self.port = at if isinstance(at, int) else at.bound["http"][0][1]
        self.status = 0
        self.tags: list[Tag] = []
        self.closed = False
        self._tag_reader = TagReader()
        self._changed = asyncio.Event()
        self._request = b""
        """The first bytes to send; subclasses set them."""

    def _take(self, data: bytes) -> None:
        """Subclasses read what the server sent."""

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port, limit=NEVER_FULL)
        self.writer.write(self._request)
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._reading.cancel()
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()

    async def _read(self) -> None:
        with contextlib.suppress(OSError, h11.RemoteProtocolError):
            while data := await self.reader.read(1 << 16):
                self._take(data)
                self._changed.set()
        self.closed = True
        self._changed.set()

    def pause_reading(self) -> None:
        self.writer.transport.pause_reading()  # type: ignore[attr-defined]

    def resume_reading(self) -> None:
        self.writer.transport.resume_reading()  # type: ignore[attr-defined]

    async def wait_until(self, condition: Callable[[], bool], timeout_s: float = 5) -> None:
        async with asyncio.timeout(timeout_s):
            while not condition():
                assert not self.closed, f"closed after {self.status}"
                self._changed.clear()
                await self._changed.wait()

    async def wait_accepted(self) -> None:
        await self.wait_until(lambda: self.status in (200, 101))

    async def wait_tags(self, count: int) -> list[Tag]:
        await self.wait_until(lambda: len(self.tags) >= count)
        return self.tags

    async def wait_closed(self) -> None:
        await self.wait_until(lambda: self.closed)


class Viewer(Browser):
    """One HTTP request. `over`: the end of the response was received."""

    def __init__(
        self, at: int | RtmpServer, target: str, *, method: str = "GET", headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(at)
        given = [("Host", f"127.0.0.1:{self.port}"), ("User-Agent", "tests/1"), *(headers or {}).items()]
        self.request = h11.Request(method=method, target=target, headers=given)
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self.over = False
        self._h11 = h11.Connection(h11.CLIENT)
        self._request = (self._h11.send(self.request) or b"") + (self._h11.send(h11.EndOfMessage()) or b"")

    def _take(self, data: bytes) -> None:
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
            elif isinstance(event, h11.EndOfMessage):
                self.over = True
                return
            else:
                return

    @property
    def detail(self) -> str:
        found: str = json.loads(self.body)["detail"]
        return found


async def ask(at: int | RtmpServer, target: str, **options: Any) -> Viewer:
    """Send a request and read its response to the end."""
    async with Viewer(at, target, **options) as viewer:
        await viewer.wait_closed()
    return viewer


class SocketViewer(Browser):
    """A WebSocket. `status` is 101 or that of a refusal."""

    def __init__(self, at: int | RtmpServer, target: str, *, origin: str = "") -> None:
        super().__init__(at)
        self.refusal = bytearray()
        self.close_code: int | None = None
        self.ws = WSConnection(ConnectionType.CLIENT)
        headers = [(b"Origin", origin.encode())] if origin else []
        self._request = self.ws.send(Request(host=f"127.0.0.1:{self.port}", target=target, extra_headers=headers))

    def _take(self, data: bytes) -> None:
        self.ws.receive_data(data)
        for event in self.ws.events():
            if isinstance(event, AcceptConnection):
                self.status = 101
            elif isinstance(event, RejectConnection):
                self.status = event.status_code
            elif isinstance(event, RejectData):
                self.refusal += event.data
            elif isinstance(event, BytesMessage):
                self.tags += self._tag_reader.feed(bytes(event.data))
            elif isinstance(event, CloseConnection):
                self.close_code = int(event.code)
                if self.ws.state is ConnectionState.REMOTE_CLOSING:
                    self.writer.write(self.ws.send(event.response()))


@contextlib.asynccontextmanager
async def both(at: int | RtmpServer, target: str, tags: int = 0) -> AsyncIterator[tuple[Viewer, SocketViewer]]:
    """A viewer by HTTP and one by WebSocket, after both were accepted and have received so many tags."""
    async with Viewer(at, target) as by_http, SocketViewer(at, target) as by_socket:
        for viewer in (by_http, by_socket):
            await viewer.wait_accepted()
            await viewer.wait_tags(tags)
        yield by_http, by_socket
