"""A TCP proxy on loopback that keeps what passes: both directions, in order, with times.

with recorded(server.rtmp) as proxy:
    ...  # A client talks to proxy.url.
for connection in proxy.connections:
    connection.pieces
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

PIECE_BYTES = 1 << 16
"""What is read, kept and passed on at once, at most."""


@dataclass(frozen=True)
class Piece:
    at: float
    """Seconds since the epoch."""
    from_client: bool
    data: bytes


@dataclass
class Connection:
    client_port: int
    server_port: int
    pieces: list[Piece] = field(default_factory=list)
    """In the order in which they came to the proxy, whichever side sent them."""

    def sent(self, *, from_client: bool) -> bytes:
        """All bytes of one direction."""
        return b"".join(piece.data for piece in self.pieces if piece.from_client is from_client)


class Proxy:
    """`url` is for clients, such as rtmp://127.0.0.1:40001; `connections` in the order in which they came."""

    def __init__(self, target: str) -> None:
        """`target`: rtmp://HOST:PORT of the server."""
        address = urlsplit(target)
        self._target = (address.hostname, address.port)
        self.connections: list[Connection] = []
        self._writers: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = int(self._server.sockets[0].getsockname()[1])
        self.url = f"rtmp://127.0.0.1:{self.port}"

    async def close(self) -> None:
        """Listens no more, and ends what is still open."""
        self._server.close()
        for writer in list(self._writers):
            writer.close()
        await asyncio.gather(*self._serving)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving = asyncio.create_task(self._pass_both(reader, writer))
        self._serving.add(serving)
        await serving

    async def _pass_both(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(writer.get_extra_info("peername")[1], self.port)
        self.connections.append(connection)
        upstream, server = await asyncio.open_connection(*self._target)
        self._writers |= {writer, server}
        await asyncio.gather(
            self._pass(reader, server, connection, from_client=True),
            self._pass(upstream, writer, connection, from_client=False),
        )

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: Connection, *, from_client: bool
    ) -> None:
        """Until one side closes, which the other is then told."""
        with contextlib.suppress(OSError):
            while data := await reader.read(PIECE_BYTES):
                connection.pieces.append(Piece(time.time(), from_client, data))
                writer.write(data)
                await writer.drain()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


@contextlib.contextmanager
def recorded(target: str) -> Iterator[Proxy]:
    """A proxy before `target`, in a thread of its own, while the block runs."""
    proxy = Proxy(target)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="wiretap", daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(proxy.open(), loop).result(5)
        yield proxy
    finally:
        asyncio.run_coroutine_threadsafe(proxy.close(), loop).result(5)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
        loop.close()
