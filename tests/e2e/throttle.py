"""A TCP proxy on loopback that is a bad network: as slow as it is told, or silent.

with Uplink(server.rtmp) as uplink:
    ...  # An encoder publishes to uplink.url.
    uplink.limit(30_000)
    uplink.limit(None)
    uplink.silence()
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Self
from urllib.parse import urlsplit

PIECES_PER_S = 20
"""Of what is slow, so that it comes evenly."""
BUFFER_BYTES = 16 * 1024
"""In the proxy and before it: little, so that what the encoder sends waits with the encoder."""
FAST_PIECE_BYTES = 1 << 16


class Uplink:
    """`url` is for encoders, such as rtmp://127.0.0.1:40001. Its connections all share the rate."""

    def __init__(self, target: str) -> None:
        """`target`: rtmp://HOST:PORT of the server."""
        address = urlsplit(target)
        self._target = (address.hostname, address.port)
        self._bytes_per_s: float | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="uplink", daemon=True)

    def limit(self, bytes_per_s: float | None) -> None:
        """From now on so many bytes go to the server in a second; None: as they come."""
        self._loop.call_soon_threadsafe(self._set, bytes_per_s)

    def silence(self) -> None:
        """Nothing passes any more, in either direction, and no connection is closed: as when a cable is pulled."""
        self.limit(0)

    def __enter__(self) -> Self:
        self._thread.start()
        self._run(self._open())
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(5)

    async def _open(self) -> None:
        self._changed = asyncio.Event()
        listening = socket.create_server(("127.0.0.1", 0))
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        self._server = await asyncio.start_server(self._serve, sock=listening, limit=BUFFER_BYTES)
        self.url = f"rtmp://127.0.0.1:{listening.getsockname()[1]}"

    async def _close(self) -> None:
        self._server.close()
        self._set(None)
        for writer in list(self._writers):
            writer.close()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def _set(self, bytes_per_s: float | None) -> None:
        self._bytes_per_s = bytes_per_s
        self._changed.set()
        self._changed = asyncio.Event()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving = asyncio.current_task()
        assert serving is not None
        self._serving.add(serving)
        upstream, server = await asyncio.open_connection(*self._target)
        self._writers |= {writer, server}
        await asyncio.gather(
            self._pass(reader, server, lambda: self._bytes_per_s),
            self._pass(upstream, writer, lambda: 0 if self._bytes_per_s == 0 else None),
        )

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, rate: Callable[[], float | None]
    ) -> None:
        """Until one side closes, which the other is then told, unless the network is silent."""
        with contextlib.suppress(OSError):
            while True:
                while (bytes_per_s := rate()) == 0:
                    await self._changed.wait()
                size = FAST_PIECE_BYTES if bytes_per_s is None else max(1, int(bytes_per_s / PIECES_PER_S))
                data = await reader.read(size)
                while rate() == 0:
                    await self._changed.wait()
                if not data:
                    break
                writer.write(data)
                await writer.drain()
                if bytes_per_s:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._changed.wait(), len(data) / bytes_per_s)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
