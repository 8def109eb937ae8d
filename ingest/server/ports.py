"""What the server's parts may use of one another, so that none of them needs to know who made it.

`listener` makes connections and the node; a connection makes its control and sessions. Each of the made ones is given
its maker as one of these.
"""

import asyncio
from collections.abc import Collection, Iterable
from typing import Any, Literal, Protocol, TypeVar

from ingest.contracts import EndReason, MediaInfo, ObjectAccess, ObjectLoaded, Totals
from ingest.credentials import Secrets
from ingest.live import Registry
from ingest.rtmp import ServerConnection, events
from ingest.server.asgi import ASGIApplication, Caller, DisconnectReason, Ending, Kind, Request, Status
from ingest.server.config import ServerConfig
from ingest.server.connection_limits import ConnectionLimits, Throttle
from ingest.server.output import Flusher, Outlet
from ingest.server.process import LoopDelay
from ingest.server.read_batching import ReadBatching
from ingest.server.recorder import Recorders
from ingest.server.vod.library import Library


class Owner(Protocol):
    """A connection of any kind, as those see it who may end a session of it."""

    def stop_session(
        self, session: "Session", reason: EndReason, description: str = "", *, keep_open: bool = False
    ) -> None: ...


class Session(Protocol):
    """One publishing or playing on a message stream, from its accept to its end."""

    event: str
    """The type of the message that tells the application of its end."""
    stream_id: int
    session_id: str
    path: str

    @property
    def connection(self) -> Owner: ...

    def start(self, now: float) -> None: ...

    def stop(self, now: float) -> Totals: ...

    def status_of(self, reason: EndReason) -> Status | None:
        """What its client is told when the server ends it for this reason."""


class Decisions(Protocol):
    """A connection's side to its application, as those see it who ask for something and act on the answers."""

    connection: "Link"
    caller: Caller
    requests: dict[int, Request]
    turns: Throttle
    secrets: Secrets
    refusals: list[Ending]
    """Of plays, one after the other, since the connection has played something."""

    def ask(
        self,
        kind: Kind,
        request_id: int,
        stream_id: int,
        now: float,
        message: Any,
        *,
        play: events.PlayRequested | None = None,
    ) -> None: ...

    def answered(
        self, kind: str, request_id: int | None = None, *, session: str = "", accept: Any = None
    ) -> Request | None: ...

    def begin(self, session: Session, now: float) -> None: ...

    def session_ended(self, session: Session, reason: EndReason, description: str, totals: Totals) -> None: ...

    def refuse_stream(self, request: Request, code: str, description: str) -> None: ...

    def public_name(self, path: str) -> str: ...

    def tell(self, event: Any) -> bool:
        """Hand the application an event that comes in its own time. False: it has had its last one."""


class Link(Owner, Protocol):
    """A connection, as its control and its sessions see it."""

    rtmp: ServerConnection

    @property
    def control(self) -> Decisions: ...

    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    peer: tuple[str, int]
    local: tuple[str, int]
    flash_ver: str
    scheme: Literal["rtmp", "rtmps"]
    sessions: dict[int, Session]
    ending: Ending | None
    is_of_use: bool
    ready_since: float | None
    lost: bool
    outlet: Outlet
    round_trip_ms: float | None

    @property
    def server(self) -> "Hub[Any]": ...

    def process(self, found: Iterable[events.Event], now: float) -> None: ...

    def after_decision(self, now: float) -> None: ...

    def collect_statuses(self, now: float) -> None: ...

    def described(self, session: Session, metadata: dict[str, Any], media: MediaInfo) -> None:
        """What a publisher sends, or says of it, has changed."""

    def end_session(self, session: Session, reason: EndReason, description: str, now: float, *, tell: bool) -> None: ...

    def end(
        self, reason: DisconnectReason, description: str, *, tell: bool = True, linger_s: float | None = None
    ) -> None: ...

    def broken(self, error: Exception) -> None: ...

    def half_close(self) -> None: ...

    def read_at_once(self) -> None:
        """Somebody waits for what the peer sends."""

    def forget(self) -> None:
        """The application has returned after the connection's end: nothing is left of it."""

    def write_control(self, shared: bytes = b"") -> None:
        """Write what the protocol has, then `shared`: whole messages that other connections are sent too."""


class ObjectUsers(Protocol):
    """The shared objects of the node, as connections see them."""

    def admit(self, link: Link, access: ObjectAccess) -> None: ...

    def received(self, link: Link, event: events.SharedObjectReceived) -> None: ...

    def loaded(self, message: ObjectLoaded) -> None: ...

    def leave(self, link: Link) -> None: ...


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
    def read_batching(self) -> ReadBatching: ...

    @property
    def watched_batching(self) -> ReadBatching: ...

    @property
    def library(self) -> Library: ...

    @property
    def objects(self) -> ObjectUsers: ...

    @property
    def recorders(self) -> Recorders | None: ...

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
    def media_addresses(self) -> list[tuple[str, int]]: ...

    @property
    def places(self) -> ConnectionLimits: ...

    @property
    def draining(self) -> bool: ...

    def drain(self, grace_s: float) -> None: ...

    def resume(self) -> None: ...

    @property
    def loop_delay(self) -> LoopDelay: ...
