"""The RTMP listener as an ASGI protocol server: start-up, the connections that there are, ordered shutdown."""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable

from ingest.live import Registry
from ingest.server.config import ServerConfig
from ingest.server.connection import Connection
from ingest.server.deadlines import sweep
from ingest.server.driver import ASGIApplication
from ingest.server.flusher import Flusher
from ingest.server.node import Node
from ingest.server.ports import Session

logger = logging.getLogger(__name__)

REFUSAL_LOG_S = 10.0
"""Connections over the caps are logged this often at most."""


class RtmpServer:
    """One listener, its live streams, and the application that decides.

    `start` binds and serves on the running loop; `drain` takes no more connections; `stop` ends all sessions with
    `node_shutdown`, waits for the applications and returns when nothing is left running.
    """

    def __init__(self, application: ASGIApplication, config: ServerConfig) -> None:
        self.application = application
        self.config = config
        self.registry = Registry(config.node, config.live)
        self.connections: set[Connection] = set()
        self.sessions: dict[str, Session] = {}
        """By session id: what publishes or plays now."""
        self.read_buffer = memoryview(bytearray(config.read_buffer_bytes))
        self.addresses: list[tuple[str, int]] = []
        """(host, port) as bound."""
        self.draining = False
        self.stopping = False
        self._loop_delay_s = 0.0
        self._per_address: Counter[str] = Counter()
        self._listener: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._empty = asyncio.Event()
        self._last_refusal_log = float("-inf")

    async def start(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.flusher = Flusher(self.loop, self.config.flush_ms)
        self._listener = await self.loop.create_server(
            lambda: Connection(self), *self.config.rtmp, backlog=self.config.backlog, reuse_address=True
        )
        self.addresses = [socket.getsockname()[:2] for socket in self._listener.sockets]
        self._schedule_sweep()
        self.node = Node(self)
        self.node.start()
        logger.info("rtmp listens on %s", ", ".join(f"{host}:{port}" for host, port in self.addresses))

    def drain(self) -> None:
        """Take no more connections; those that there are go on."""
        if self.draining:
            return
        self.draining = True
        if self._listener:
            self._listener.close()
        self.node.draining()

    async def stop(self, grace_s: float = 5.0) -> None:
        """End everything in order: listener, sessions, connections, their applications, the node."""
        if self._listener is None or self.stopping:
            return
        self.drain()
        self.stopping = True
        self._each(_shut_down)
        await self._wait_until_empty(grace_s)
        for connection in list(self.connections):
            if not connection.lost:
                connection.transport.abort()
        await self._wait_until_empty(grace_s)
        leftover = [connection.control.driver for connection in self.connections]
        for driver in leftover:
            if driver:
                driver.task.cancel()
        if self._timer:
            self._timer.cancel()
        self.flusher.close()
        await self.node.stop(grace_s)
        await asyncio.gather(*(driver.task for driver in leftover if driver), return_exceptions=True)
        await self._listener.wait_closed()

    async def _wait_until_empty(self, timeout_s: float) -> None:
        if self.connections:
            self._empty.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._empty.wait(), timeout_s)

    # --- For connections ---

    def admit(self, connection: Connection) -> bool:
        """Count a new connection in, unless the server or its address has as many as it may."""
        address = connection.peer[0]
        config = self.config
        if (
            self.draining
            or len(self.connections) >= config.max_connections
            or self._per_address[address] >= config.max_connections_per_address
        ):
            if self.loop.time() - self._last_refusal_log >= REFUSAL_LOG_S:
                self._last_refusal_log = self.loop.time()
                logger.warning("rtmp %s: too many connections (%d): closed", address, len(self.connections))
            return False
        self.connections.add(connection)
        self._per_address[address] += 1
        return True

    def forget(self, connection: Connection) -> None:
        """The connection is gone and its application has returned."""
        if connection not in self.connections:
            return
        self.connections.discard(connection)
        address = connection.peer[0]
        self._per_address[address] -= 1
        if not self._per_address[address]:
            del self._per_address[address]
        if not self.connections:
            self._empty.set()

    # --- The sweep ---

    def take_loop_delay(self) -> float:
        """How late the sweep's timer fired, in seconds: the largest since this was asked last."""
        delay_s, self._loop_delay_s = self._loop_delay_s, 0.0
        return delay_s

    def _schedule_sweep(self) -> None:
        self._sweep_due = self.loop.time() + self.config.deadlines.sweep_s
        self._timer = self.loop.call_at(self._sweep_due, self._sweep)

    def _sweep(self) -> None:
        now = self.loop.time()
        self._loop_delay_s = max(self._loop_delay_s, now - self._sweep_due)
        self._schedule_sweep()
        self._each(lambda connection: sweep(connection, self.config.deadlines, now))

    def _each(self, act: Callable[[Connection], None]) -> None:
        for connection in list(self.connections):
            try:
                act(connection)
            except Exception as error:
                connection.broken(error)


def _shut_down(connection: Connection) -> None:
    connection.end("node_shutdown", "The server stopped.")
    connection.half_close()
