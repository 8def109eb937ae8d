"""What the server's parts may use of one another, so that none of them needs to know who made it.

`listener` makes connections and the node; a connection makes its control and sessions. Each of the made ones is given
its maker as one of these.
"""

import asyncio
from collections.abc import Collection, Iterable
from typing import Any, Literal, Protocol, TypeVar

from ingest.contracts import EndReason, MediaInfo, Totals
from ingest.live import Registry
from ingest.rtmp import ServerConnection, events
from ingest.server.config import ServerConfig
from ingest.server.driver import ASGIApplication
from ingest.server.endings import DisconnectReason, Ending, Status
from ingest.server.flusher import Flusher
from ingest.server.places import Places
from ingest.server.rests import Rests


class Session(Protocol):
    """One publishing or playing on a message stream, from its accept to its end."""

    event: str
    """The type of the message that tells the application of its end."""
    stream_id: int
    session_id: str
    path: str
    connection: "Link"

    def start(self, now: float) -> None: ...

    def stop(self, now: float) -> Totals: ...

    def status_of(self, reason: EndReason) -> Status | None:
        """What its client is told when the server ends it for this reason."""


class Link(Protocol):
    """A connection, as its control and its sessions see it."""

    rtmp: ServerConnection
    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    peer: tuple[str, int]
    local: tuple[str, int]
    flash_ver: str
    scheme: Literal["rtmp", "rtmps"]
    sessions: dict[int, Session]
    ending: Ending | None
    asked: bool
    lost: bool
    write_blocked_since: float | None

    @property
    def server(self) -> "Hub[Any]": ...

    def process(self, found: Iterable[events.Event], now: float) -> None: ...

    def after_decision(self, now: float) -> None: ...

    def collect_statuses(self, now: float) -> None: ...

    def described(self, session: Session, metadata: dict[str, Any], media: MediaInfo) -> None:
        """What a publisher sends, or says of it, has changed."""

    def end_session(self, session: Session, reason: EndReason, description: str, now: float, *, tell: bool) -> None: ...

    def stop_session(
        self, session: Session, reason: EndReason, description: str = "", *, keep_open: bool = False
    ) -> None: ...

    def end(
        self, reason: DisconnectReason, description: str, *, tell: bool = True, linger_s: float | None = None
    ) -> None: ...

    def broken(self, error: Exception) -> None: ...

    def half_close(self) -> None: ...

    def forget(self) -> None:
        """The application has returned after the connection's end: nothing is left of it."""

    def write_control(self) -> None: ...

    def write_media(self, parts: list[bytes]) -> None: ...


C = TypeVar("C", contravariant=True)


class Hub(Protocol[C]):
    """The listener, as its connections (of type C) and its node see it."""

    @property
    def application(self) -> ASGIApplication: ...

    @property
    def config(self) -> ServerConfig: ...

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    @property
    def registry(self) -> Registry: ...

    @property
    def flusher(self) -> Flusher: ...

    @property
    def rests(self) -> Rests: ...

    @property
    def read_buffer(self) -> memoryview: ...

    @property
    def addresses(self) -> list[tuple[str, int]]: ...

    @property
    def sessions(self) -> dict[str, Session]: ...

    @property
    def connections(self) -> Collection[object]: ...

    def admit(self, connection: C) -> bool: ...

    def forget(self, connection: C) -> None: ...

    @property
    def tls_addresses(self) -> list[tuple[str, int]]: ...

    @property
    def places(self) -> Places: ...

    @property
    def draining(self) -> bool: ...

    def drain(self, grace_s: float) -> None: ...

    def resume(self) -> None: ...

    def take_loop_delay(self) -> float: ...
