"""What all connections of a listener, and its node, share: the live streams, the pacing of reads and writes, bounds.

Connections stand above it, so it takes their type; and what a session is, of whatever kind.
"""

import asyncio
from typing import Any, Generic, Protocol, TypeVar

from ingest.contracts import EndReason, PlayerSample, RelayOrder, Totals
from ingest.live import LiveStream, Registry
from ingest.server.asgi import ASGIApplication, Status
from ingest.server.config import ServerConfig
from ingest.server.connection_limits import ConnectionLimits
from ingest.server.output import Flusher
from ingest.server.process import LoopDelay
from ingest.server.read_batching import MANY_WATCHED, WATCHED_MS, ReadBatching
from ingest.server.recorder import Recorders
from ingest.server.vod.library import Library

C = TypeVar("C")
"""Of a connection."""


class Session(Generic[C]):
    """One publishing or playing on a message stream, from its accept to its end."""

    __slots__ = ("connection", "is_complete", "path", "session_id", "stream_id")

    event = "rtmp.stop"
    """The type of the message that tells the application of its end."""
    has_media = False
    """Of one that publishes: whether some came."""
    reads_as_it_plays = False
    """Of one that plays: its peer leaves unread what it doesn't need yet."""

    def __init__(self, connection: C, stream_id: int, session_id: str, path: str) -> None:
        self.connection = connection
        self.stream_id = stream_id
        self.session_id = session_id
        self.path = path
        self.is_complete = False
        """All of it was sent, and the client told so. It may still want to go back."""

    @property
    def is_watched(self) -> bool:
        """Of one that publishes: whether players take what it sends."""
        return False

    def start(self, now: float) -> None:
        raise NotImplementedError

    def before_stop(self, reason: EndReason, description: str, now: float) -> None:
        """`stop` follows."""

    def stop(self, now: float) -> Totals:
        raise NotImplementedError

    def resume(self) -> None:
        """The peer takes media again."""

    def sample(self) -> PlayerSample | None:
        """For the node's tick, of players that no live stream tells of."""
        return None

    def _sample(self, sent_bytes: int) -> PlayerSample:
        """Of one for which nothing is dropped."""
        return PlayerSample(
            session_id=self.session_id, path=self.path, out_bytes=sent_bytes, dropped_frames=0, queued_ms=0
        )

    def check_deadlines(self, now: float) -> None:
        """Four times a second: what time alone brings about."""

    def gives_up(self, reason: EndReason, description: str, now: float) -> bool:
        """The server ends it. True: it has not begun, and is gone already; what plays in its place goes on."""
        return False

    def status_of(self, reason: EndReason) -> Status | None:
        """What its client is told when the server ends it for this reason."""
        return None


AnySession = Session[Any]


class RelayTable(Protocol):
    """Of streams that are published on other nodes (`ingest.server.relays`)."""

    def want(self, path: str, order: RelayOrder) -> None:
        """Somebody here plays the stream, which is published elsewhere."""

    def end(self, path: str) -> None:
        """It is published here now."""


class PushTable(Protocol):
    """Of streams that are published on other servers as well (`ingest.server.pushes`), as they are told what becomes of
    one."""

    def ended(self, live: LiveStream) -> None: ...

    def described(self, live: LiveStream) -> None: ...

    def cleared(self, live: LiveStream, payload: bytes) -> None: ...


class ServerContext(Generic[C]):
    """Made by the listener, which has it open before it takes connections."""

    loop: asyncio.AbstractEventLoop
    connection_limits: ConnectionLimits
    flusher: Flusher
    read_batching: ReadBatching
    watched_batching: ReadBatching
    library: Library
    relays: RelayTable
    pushes: PushTable

    def __init__(self, application: ASGIApplication, config: ServerConfig) -> None:
        self.application = application
        self.config = config
        self.registry = Registry(
            config.node, config.live, lambda stream, is_urgent: self.flusher.wake(stream, is_urgent)
        )
        self.connections: set[C] = set()
        self.sessions: dict[str, AnySession] = {}
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
        self.library = Library(loop, config.limits, config.mp4)

    def close(self) -> None:
        for part in (self.flusher, self.read_batching, self.watched_batching, self.library):
            part.close()

    def admit(self, connection: C, address: str, *, is_proxy: bool = False) -> bool:
        """Count a new connection in, unless the server drains, or it or the address has as many as it may."""
        if self.draining or not self.connection_limits.take(address, is_proxy=is_proxy):
            return False
        self.connections.add(connection)
        return True

    def forget(self, connection: C, address: str) -> None:
        """The connection is gone and its application has returned."""
        if connection not in self.connections:
            return
        self.connections.discard(connection)
        self.connection_limits.free(address)
        if not self.connections:
            self.emptied.set()
