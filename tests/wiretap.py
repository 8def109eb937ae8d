"""A TCP proxy on loopback that records what passes, in order, and acts as a bad network when a test says so.

with recorded(server.rtmp) as proxy:
    ...  # A client talks to proxy.url.
    proxy.limit(30_000)
for connection in proxy.connections:
    connection.pieces
"""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tests.loops import LoopThread

PIECE_BYTES = 1 << 16
PIECES_PER_S = 20
"""A limited connection is served evenly, in so many pieces."""
UPLINK_BYTES = 16 * 1024
"""A buffer so small that data of an encoder waits in the encoder."""


@dataclass(frozen=True)
class Piece:
    from_client: bool
    data: bytes


@dataclass
class Connection:
    client_port: int
    server_port: int
    pieces: list[Piece] = field(default_factory=list)
    """In the order in which they came to the proxy, from both sides."""

    def sent(self, *, from_client: bool) -> bytes:
        """All bytes of one direction."""
        return b"".join(piece.data for piece in self.pieces if piece.from_client is from_client)


class Proxy:
    """Clients connect to `url`, such as rtmp://127.0.0.1:40001. All connections have the same limit."""

    def __init__(self, loop: LoopThread, target: str, buffer_bytes: int) -> None:
        self._target, self._loop, self._buffer_bytes = urlsplit(target), loop, buffer_bytes
        self._bytes_per_s: float | None = None
        self._changed = asyncio.Event()
        self.connections: list[Connection] = []
        self._writers: list[asyncio.StreamWriter] = []
        self._serving: list[asyncio.Task[None]] = []

    def limit(self, bytes_per_s: float | None) -> None:
        """Limit what goes to the server. None: no limit. 0: nothing passes either way, as in a pulled cable."""
        self._loop.call(self._set_limit, bytes_per_s)

    def _set_limit(self, bytes_per_s: float | None) -> None:
        self._bytes_per_s = bytes_per_s
        self._changed.set()
        self._changed = asyncio.Event()

    async def open(self) -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._buffer_bytes)
        self._server = await asyncio.start_server(self._serve, sock=listening, limit=self._buffer_bytes)
        self._port = int(listening.getsockname()[1])
        self.url = f"rtmp://127.0.0.1:{self._port}"

    async def close(self) -> None:
        """Stop listening, and end what is still open."""
        self._server.close()
        self._set_limit(None)
        for writer in self._writers:
            writer.close()
        await asyncio.gather(*self._serving)

    def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._serving.append(asyncio.create_task(self._pass_both(reader, writer)))

    async def _pass_both(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(writer.get_extra_info("peername")[1], self._port)
        self.connections.append(connection)
        upstream, server = await asyncio.open_connection(self._target.hostname, self._target.port)
        self._writers += [writer, server]
        await asyncio.gather(
            self._pass(reader, server, connection, from_client=True),
            self._pass(upstream, writer, connection, from_client=False),
        )

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: Connection, *, from_client: bool
    ) -> None:
        """Pass data on until one side closes, then close the other side, unless the limit is 0."""
        with contextlib.suppress(OSError):
            while True:
                await self._wait_open()
                bytes_per_s = self._bytes_per_s if from_client else None
                data = await reader.read(max(1, int(bytes_per_s / PIECES_PER_S)) if bytes_per_s else PIECE_BYTES)
                await self._wait_open()
                if not data:
                    break
                connection.pieces.append(Piece(from_client, data))
                writer.write(data)
                await writer.drain()
                if bytes_per_s:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._changed.wait(), len(data) / bytes_per_s)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    async def _wait_open(self) -> None:
        while self._bytes_per_s == 0:
            await self._changed.wait()


@contextlib.contextmanager
def recorded(target: str, *, buffer_bytes: int = PIECE_BYTES) -> Iterator[Proxy]:
    """A proxy to `target` (rtmp://HOST:PORT) during the block. `buffer_bytes`: of its reader and its socket."""
    with LoopThread("proxy") as loop:
        proxy = Proxy(loop, target, buffer_bytes)
        loop.run(proxy.open())
        try:
            yield proxy
        finally:
            loop.run(proxy.close())
