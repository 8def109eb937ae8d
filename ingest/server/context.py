"""What all connections of a listener, and its node, share: the live streams, the pacing of reads and writes, bounds."""

import asyncio

from ingest.live import Registry
from ingest.server.application import Session
from ingest.server.asgi import ASGIApplication
from ingest.server.config import ServerConfig
from ingest.server.connection_base import BaseConnection
from ingest.server.connection_limits import ConnectionLimits
from ingest.server.output import Flusher
from ingest.server.process import LoopDelay
from ingest.server.read_batching import MANY_WATCHED, WATCHED_MS, ReadBatching
from ingest.server.recorder import Recorders
from ingest.server.shared_objects import SharedObjects
from ingest.server.vod.library import Library


class ServerContext:
    """Made by the listener, which has it open before it takes connections."""

    loop: asyncio.AbstractEventLoop
    connection_limits: ConnectionLimits
    flusher: Flusher
    read_batching: ReadBatching
    watched_batching: ReadBatching
    library: Library
    objects: SharedObjects

    def __init__(self, application: ASGIApplication, config: ServerConfig) -> None:
        self.application = application
        self.config = config
        self.registry = Registry(
            config.node, config.live, lambda stream, is_urgent: self.flusher.wake(stream, is_urgent)
        )
        self.connections: set[BaseConnection] = set()
        self.sessions: dict[str, Session] = {}
        """By session id: what publishes or plays now."""
        self.read_buffer = memoryview(bytearray(config.read_buffer_bytes))
        self.draining = False
        self.recorders: Recorders | None = None
        self.loop_delay = LoopDelay()
        self.emptied = asyncio.Event()

    def open(self) -> None:
        config, loop = self.config, asyncio.get_running_loop()
        self.loop = loop
        self.connection_limits = ConnectionLimits(config.max_connections, config.max_connections_per_address)
        self.flusher = Flusher(loop, config.flush_ms)
        self.read_batching = ReadBatching(loop, config.read_ms, self.read_buffer)
        watched_ms = min(config.read_ms, WATCHED_MS)
        self.watched_batching = ReadBatching(loop, watched_ms, self.read_buffer, fewest=MANY_WATCHED)
        self.library = Library(loop, config.limits)
        self.objects = SharedObjects(loop, config.objects, config.limits, config.deadlines)

    def close(self) -> None:
        for part in (self.flusher, self.read_batching, self.watched_batching, self.library, self.objects):
            part.close()

    def admit(self, connection: BaseConnection, *, is_proxy: bool = False) -> bool:
        """Count a new connection in, unless the server drains, or it or the address has as many as it may."""
        if self.draining or not self.connection_limits.take(connection.peer[0], is_proxy=is_proxy):
            return False
        self.connections.add(connection)
        return True

    def forget(self, connection: BaseConnection) -> None:
        """The connection is gone and its application has returned."""
        if connection not in self.connections:
            return
        self.connections.discard(connection)
        self.connection_limits.free(connection.peer[0])
        if not self.connections:
            self.emptied.set()
