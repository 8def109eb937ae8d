"""One connection of the generator, up to Publish.Start or Play.Start. All connections read into one buffer."""

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast
from urllib.parse import urlsplit

from ingest.rtmp import ClientConnection, RemoteProtocolError, events

E = TypeVar("E", bound=events.Event)
C = TypeVar("C", bound="Client")

NONCE: Final = bytes(range(256)) * 5 + bytes(248)
ANSWER_S: Final = 10.0
"""How long the server may take for each answer."""
RTMP_PORT: Final = 1935

BUFFER: Final = memoryview(bytearray(256 * 1024))


class Refused(Exception):  # noqa: N818 - an answer, not an error.
    """The server refused a request, or closed before it answered."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where the load goes: rtmp://host:port/app."""

    host: str
    port: int
    app: str
    source: str = ""
    """The address that clients come from; "": any."""

    @classmethod
    def of(cls, server: str, app: str) -> "Target":
        """`server`: rtmp://host[:port]."""
        url = urlsplit(server)
        return cls(url.hostname or "", url.port or RTMP_PORT, app)

    @property
    def tc_url(self) -> str:
        return f"rtmp://{self.host}:{self.port}/{self.app}"


class Client(asyncio.BufferedProtocol):
    """`await Client.open(target)` has the application's answer to connect."""

    transport: asyncio.Transport

    def __init__(self, target: Target) -> None:
        self.target = target
        self.rtmp = ClientConnection(nonce=NONCE)
        self.bytes_read = 0
        self.reads = 0
        self.closed_by_us = False
        self.lost: str | None = None
        """Why the connection ended without our wish."""
        self._found: list[events.Event] = []
        self._changed: asyncio.Future[None] | None = None
        self._is_set_up = False

    @classmethod
    async def open(cls: type[C], target: Target, *arguments: Any) -> C:
        loop = asyncio.get_running_loop()
        try:
            source = (target.source, 0) if target.source else None
            _, client = await loop.create_connection(
                lambda: cls(target, *arguments), target.host, target.port, local_addr=source
            )
        except OSError as error:
            raise Refused(f"no connection: {error.strerror}") from None
        await client._answer(events.HandshakeCompleted)
        client.rtmp.connect(target.app, target.tc_url)
        await client._result("connect")
        return client

    async def create_stream(self) -> int:
        self.rtmp.create_stream()
        return int((await self._result("createStream")).values[-1])

    async def publish(self, name: str) -> int:
        """What encoders send before and with `publish`; the message stream's id."""
        self.rtmp.call("releaseStream", name)
        self.rtmp.call("FCPublish", name)
        stream_id = await self.create_stream()
        self.rtmp.publish(stream_id, name)
        await self._status("NetStream.Publish.Start")
        return stream_id

    async def play(self, name: str) -> int:
        stream_id = await self.create_stream()
        self.rtmp.call("play", name, -2.0, -1.0, stream_id=stream_id)
        await self._status("NetStream.Play.Start")
        return stream_id

    def close(self) -> None:
        self.closed_by_us = True
        self.transport.close()

    # --- The transport ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._write()

    def get_buffer(self, sizehint: int) -> memoryview:
        return BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        self.reads += 1
        self.bytes_read += nbytes
        try:
            found = self.rtmp.receive_data(BUFFER[:nbytes])
        except RemoteProtocolError as error:
            self._fail(f"the server broke the protocol: {error}")
            return
        if self.rtmp.has_output:
            self._write()
        if self._is_set_up:
            self.received(found)
        else:
            self._found += found
            self._wake()

    def received(self, found: list[events.Event]) -> None:
        """What came after Publish.Start or Play.Start."""
        for event in found:
            if type(event) is events.StatusReceived and event.level == "error":
                self._fail(event.code)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed_by_us and self.lost is None:
            self.lost = "the server closed the connection"
        self._wake()

    def _fail(self, reason: str) -> None:
        if self.lost is None:
            self.lost = reason
        self.transport.abort()

    def _write(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(self.rtmp.data_to_send())

    # --- Waiting for answers ---

    def _wake(self) -> None:
        if self._changed and not self._changed.done():
            self._changed.set_result(None)

    async def _answer(self, kind: type[E]) -> E:
        """The next event of the kind; those before it are dropped."""
        self._write()
        async with asyncio.timeout(ANSWER_S):
            while True:
                while self._found:
                    event = self._found.pop(0)
                    if isinstance(event, kind):
                        return event
                if self.lost or self.closed_by_us:
                    raise Refused(self.lost or "closed")
                self._changed = asyncio.get_running_loop().create_future()
                await self._changed

    async def _result(self, procedure: str) -> events.ResultReceived:
        while True:
            result = await self._answer(events.ResultReceived)
            if result.procedure == procedure:
                break
        if not result.succeeded:
            raise Refused(_text(result.values))
        return result

    async def _status(self, code: str) -> None:
        while True:
            status = await self._answer(events.StatusReceived)
            if status.level == "error":
                raise Refused(f"{status.code}: {status.description}")
            if status.code == code:
                break
        self._is_set_up = True
        found, self._found = self._found, []
        self.received(found)


def _text(values: list[Any]) -> str:
    info = next((value for value in reversed(values) if isinstance(value, dict)), {})
    return f"{info.get('code', 'refused')}: {info.get('description', '')}"


async def close_all(clients: list[Any]) -> None:
    """Close, and let the loop do it."""
    for client in clients:
        with contextlib.suppress(RuntimeError):
            client.close()
    await asyncio.sleep(0.1)
