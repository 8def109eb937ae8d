"""A TCP proxy on loopback that behaves like a bad network: slow, narrow, stalling, cut and mended."""

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Final, Self

READ_BYTES: Final = 64 * 1024
PIECE_S: Final = 0.05
"""The time that one read of a limited link takes at its byte rate."""


class Link:
    """Passes connections from `port` to `target`, both on loopback, by an event loop in a thread of its own.

    While the link is cut, it swallows all bytes silently, as a cable does that was pulled.
    """

    def __init__(self, target: int, *, delay_s: float = 0.0, bytes_per_s: float | None = None, port: int = 0) -> None:
        """
        Args:
            delay_s: The delay of each direction.
            bytes_per_s: The limit of all bytes from the target, for all connections together. None: no limit.
        """
        self.port = port
        self.connections = 0
        self._target, self._delay_s, self._bytes_per_s = target, delay_s, bytes_per_s
        self._free_at = 0.0
        """When the next bytes from the target may pass, by the loop's clock."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="link", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._run(self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def limit(self, bytes_per_s: float | None) -> None:
        self._bytes_per_s = bytes_per_s

    def stall(self, seconds: float) -> None:
        """Hold back everything from the target for that long. Nothing is lost."""
        self._free_at = max(self._free_at, self._loop.time()) + seconds

    def cut(self) -> None:
        self._loop.call_soon_threadsafe(self._is_whole.clear)

    def mend(self) -> None:
        """Pass new connections again. Connections from before the cut end, as their bytes are lost."""
        self._run(self._mend())

    def _run(self, work: Coroutine[None, None, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _listen(self) -> None:
        self._is_whole = asyncio.Event()
        self._is_whole.set()
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        self._server.close()
        await self._mend()

    async def _mend(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._is_whole.set()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        back = None
        try:
            await self._is_whole.wait()
            self.connections += 1
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass(reader, back, is_limited=False))
                group.create_task(self._pass(there, writer, is_limited=True))
        except* OSError:
            pass  # One end has gone.
        finally:
            for each in (writer, back):
                if each is not None:
                    each.close()
            self._tasks.discard(task)

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, is_limited: bool) -> None:
        def write(data: bytes) -> None:
            if self._is_whole.is_set() and not sink.is_closing():
                sink.write(data)

        while data := await source.read(self._piece_bytes):
            if not self._is_whole.is_set():
                continue
            if is_limited:
                now = self._loop.time()
                if self._bytes_per_s is not None:
                    self._free_at = max(self._free_at, now) + len(data) / self._bytes_per_s
                await asyncio.sleep(self._free_at - now)
            if self._delay_s:
                self._loop.call_later(self._delay_s, write, data)
            else:
                write(data)
            with suppress(ConnectionError):
                await sink.drain()
        sink.close()

    @property
    def _piece_bytes(self) -> int:
        rate = self._bytes_per_s
        return READ_BYTES if rate is None else min(READ_BYTES, max(1, round(rate * PIECE_S)))
