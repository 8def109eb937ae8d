"""A TCP proxy on loopback that keeps what passes, in order; and is a bad network, if it is told to.

with recorded(server.rtmp) as proxy:
    ...  # A client talks to proxy.url.
    proxy.limit(30_000)
    proxy.silence()
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
"""What is read, kept and passed on at once, at most."""
PIECES_PER_S = 20
"""Of what is slow, so that it comes evenly."""
UPLINK_BYTES = 16 * 1024
"""A buffer so little that what an encoder sends waits with the encoder."""


@dataclass(frozen=True)
class Piece:
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
    """`url` is for clients, such as rtmp://127.0.0.1:40001; `connections` in the order in which they came. They share
    the rate.
    """

    def __init__(self, loop: LoopThread, target: str, buffer_bytes: int) -> None:
        address = urlsplit(target)
        self._target = (address.hostname, address.port)
        self._loop = loop
        self._buffer_bytes = buffer_bytes
        self._bytes_per_s: float | None = None
        self.connections: list[Connection] = []
        self._writers: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()

    def limit(self, bytes_per_s: float | None) -> None:
        """From now on so many bytes go to the server in a second; None: as they come."""
        self._loop.call(self._set, bytes_per_s)

    def silence(self) -> None:
        """Nothing passes any more, in either direction, and no connection is closed: as when a cable is pulled."""
        self.limit(0)

    async def open(self) -> None:
        self._changed = asyncio.Event()
        listening = socket.create_server(("127.0.0.1", 0))
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._buffer_bytes)
        self._server = await asyncio.start_server(self._serve, sock=listening, limit=self._buffer_bytes)
        self._port = int(listening.getsockname()[1])
        self.url = f"rtmp://127.0.0.1:{self._port}"

    async def close(self) -> None:
        """Listens no more, and ends what is still open."""
        self._server.close()
        self._set(None)
        for writer in list(self._writers):
            writer.close()
        await asyncio.gather(*self._serving)

    def _set(self, bytes_per_s: float | None) -> None:
        self._bytes_per_s = bytes_per_s
        self._changed.set()
        self._changed = asyncio.Event()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving = asyncio.create_task(self._pass_both(reader, writer))
        self._serving.add(serving)
        await serving

    async def _pass_both(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(writer.get_extra_info("peername")[1], self._port)
        self.connections.append(connection)
        upstream, server = await asyncio.open_connection(*self._target)
        self._writers |= {writer, server}
        await asyncio.gather(
            self._pass(reader, server, connection, from_client=True),
            self._pass(upstream, writer, connection, from_client=False),
        )

    def _rate(self, *, from_client: bool) -> float | None:
        return self._bytes_per_s if from_client or self._bytes_per_s == 0 else None

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: Connection, *, from_client: bool
    ) -> None:
        """Until one side closes, which the other is then told, unless the network is silent."""
        with contextlib.suppress(OSError):
            while True:
                while (bytes_per_s := self._rate(from_client=from_client)) == 0:
                    await self._changed.wait()
                size = PIECE_BYTES if bytes_per_s is None else max(1, int(bytes_per_s / PIECES_PER_S))
                data = await reader.read(size)
                while self._bytes_per_s == 0:
                    await self._changed.wait()
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


@contextlib.contextmanager
def recorded(target: str, *, buffer_bytes: int = PIECE_BYTES) -> Iterator[Proxy]:
    """A proxy before `target` (rtmp://HOST:PORT) while the block runs. `buffer_bytes`: in it, and of its socket."""
    with LoopThread("proxy") as loop:
        proxy = Proxy(loop, target, buffer_bytes)
        loop.run(proxy.open())
        try:
            yield proxy
        finally:
            loop.run(proxy.close())
