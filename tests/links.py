"""A TCP proxy on loopback that is a bad network: it takes its time, has little room, and can be cut and mended."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

READ_BYTES = 64 * 1024
PIECE_S = 0.05
"""What goes at once through a link that is slow takes it so long."""


class Link:
    """From `port` to `target`, for as long as the block lasts. Cut, it swallows what comes and says nothing, as a cable
    that was pulled does: neither end is told."""

    def __init__(self, target: int, *, delay_s: float = 0.0, bytes_per_s: float | None = None, port: int = 0) -> None:
        """`delay_s`: one way. `bytes_per_s`: from the target, of all connections together; None: all that comes."""
        self._target = target
        self._delay_s = delay_s
        self.bytes_per_s = bytes_per_s
        self.port = port
        self.passed_bytes = 0
        """From the target."""
        self.connections = 0
        """Since it began."""
        self._free_at = 0.0
        """By the loop's clock: what comes from the target goes on then."""
        self._is_whole = asyncio.Event()
        self._is_whole.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> "Link":
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        self._is_whole.clear()

    def mend(self) -> None:
        """Connections from before the cut stay dead: what was lost on them is lost."""
        for task in list(self._tasks):
            task.cancel()
        self._is_whole.set()

    def stall(self, seconds: float) -> None:
        """Nothing comes from the target for so long; nothing is lost."""
        self._free_at = max(self._free_at, asyncio.get_running_loop().time()) + seconds

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._is_whole.wait()
            self.connections += 1
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._pass(reader, back, self._nothing))
                    group.create_task(self._pass(there, writer, self._throttle))
            finally:
                back.close()
        except (OSError, ExceptionGroup):
            pass
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _pass(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, wait: Callable[[int], Awaitable[None]]
    ) -> None:
        loop = asyncio.get_running_loop()
        while data := await source.read(self._piece_bytes):
            if not self._is_whole.is_set():
                continue
            await wait(len(data))
            if self._delay_s:
                loop.call_later(self._delay_s, self._write, sink, data)
            else:
                self._write(sink, data)
            with suppress(ConnectionError):
                await sink.drain()
        sink.close()

    def _write(self, sink: asyncio.StreamWriter, data: bytes) -> None:
        if self._is_whole.is_set() and not sink.is_closing():
            sink.write(data)

    async def _nothing(self, _size: int) -> None:
        pass

    @property
    def _piece_bytes(self) -> int:
        return READ_BYTES if self.bytes_per_s is None else min(READ_BYTES, max(1, round(self.bytes_per_s * PIECE_S)))

    async def _throttle(self, size: int) -> None:
        self.passed_bytes += size
        now = asyncio.get_running_loop().time()
        if self.bytes_per_s is not None:
            self._free_at = max(self._free_at, now) + size / self.bytes_per_s
        if self._free_at > now:
            await asyncio.sleep(self._free_at - now)
