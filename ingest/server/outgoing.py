"""An RTMP connection that this server makes: to another node, for a stream that it relays, or to another server.

From dialling (TCP or a Unix socket, then TLS for rtmps) by the handshake, `connect` and `createStream` to a message
stream; what that is used for is its user's. It ends once: by `close`, which tells nobody, or as `lost`, which says why.
"""

import asyncio
import os
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Protocol, cast
from urllib.parse import urlsplit

from ingest.contracts import PushFailure
from ingest.rtmp import ClientConnection, RemoteProtocolError, events
from ingest.rtmp.limits import Limits
from ingest.rtmp.messages.commands import text
from ingest.rtmp.run_reader import MediaSink
from ingest.server.output import Outlet
from ingest.server.sockets import tune

NONCE_BYTES: Final = 1528
PORTS: Final = {"rtmp": 1935, "rtmps": 443}

WATCH_S: Final = 0.5
"""Between two looks at whether the peer still lives."""


class Failure(NamedTuple):
    """Why a connection is gone. `code`: the peer's own status; "": it gave none."""

    kind: PushFailure
    code: str
    description: str


@dataclass(frozen=True, slots=True)
class Destination:
    scheme: Literal["rtmp", "rtmps", "unix"]
    host: str
    """Of a Unix socket: its path."""
    port: int
    app: str
    """With its query, if it has one."""

    @property
    def tc_url(self) -> str:
        if self.scheme == "unix":
            return f"rtmp://localhost/{self.app}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}/{self.app}"


def destination(url: str, app: str) -> Destination:
    """`url`: rtmp[s]://host[:port], or unix:/path. Raises ValueError for any other."""
    if url.startswith("unix:"):
        return Destination("unix", url.removeprefix("unix:"), 0, app)
    parts = urlsplit(url)
    if parts.scheme not in PORTS or not parts.hostname:
        raise ValueError(f"{url} is no address of an RTMP server")
    scheme = cast("Literal['rtmp', 'rtmps']", parts.scheme)
    return Destination(scheme, parts.hostname, parts.port or PORTS[scheme], app)


class User(Protocol):
    """Who uses the connection. All but `lost` is called while it reads; what is queued then is written afterwards."""

    def created(self, stream_id: int) -> None:
        """There is a message stream."""

    def status(self, event: events.StatusReceived) -> None: ...

    def data(self, event: events.DataReceived) -> None: ...

    def resumed(self) -> None:
        """The peer takes media again."""

    def lost(self, failure: Failure) -> None: ...


@dataclass(frozen=True, slots=True)
class Patience:
    """In seconds."""

    begin_s: float
    """From dialling until its user has called `begun`."""
    quiet_s: float
    """Without a byte from the peer: then it is pinged,"""
    answer_s: float
    """and has so long to answer."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all connections of a server share."""

    loop: asyncio.AbstractEventLoop
    read_buffer: memoryview
    limits: Limits
    window_bytes: int
    unsent_bytes: int


class Outgoing(asyncio.BufferedProtocol):
    rtmp: ClientConnection
    outlet: Outlet
    transport: asyncio.Transport

    def __init__(
        self,
        to: Destination,
        user: User,
        surroundings: Surroundings,
        patience: Patience,
        *,
        properties: Mapping[str, Any] | None = None,
        ca: Path | None = None,
    ) -> None:
        """Dials at once. `properties`: of `connect`. `ca`: as `RelaySettings.ca`."""
        self.to = to
        self._user = user
        self._around = surroundings
        self._patience = patience
        self._properties = dict(properties or {})
        self._ca = ca
        self._loop = surroundings.loop
        self._is_over = False
        self._has_begun = self._has_transport = False
        self._opened = self._last_received = self._loop.time()
        self._pinged_at: float | None = None
        self._sink: MediaSink | None = None
        self._timer = self._loop.call_later(patience.begin_s, self._is_late)
        self._dialling: asyncio.Task[None] | None = self._loop.create_task(self._dial())

    # --- Its user's side ---

    def play(self, stream_id: int, name: str, sink: MediaSink) -> None:
        self._sink = sink
        self.rtmp.play(stream_id, name, sink=sink)

    def begun(self) -> None:
        """It does what it is there for. From now on the peer has to live, and no more."""
        self._has_begun = True
        self._timer.cancel()
        self._timer = self._loop.call_later(WATCH_S, self._watch)

    def write(self) -> None:
        """What the protocol has queued."""
        if self._has_transport and not self._is_over:
            data = self.rtmp.data_to_send()
            if data:
                self.outlet.write_control(data)

    def close(self) -> None:
        """End it; nobody is told."""
        if self._is_over:
            return
        self.write()
        self._is_over = True
        self._timer.cancel()
        if self._dialling is not None:
            self._dialling.cancel()
        if self._has_transport:
            self.transport.close()

    @property
    def received_bytes(self) -> int:
        return self.rtmp.bytes_received if self._has_transport else 0

    def _lose(self, failure: Failure) -> None:
        if self._is_over:
            return
        self.close()
        if self._has_transport:
            self.transport.abort()
        self._user.lost(failure)

    # --- Dialling ---

    async def _dial(self) -> None:
        to, loop = self.to, self._loop
        try:
            if to.scheme == "unix":
                await loop.create_unix_connection(lambda: self, to.host)
            else:
                tls = self._tls() if to.scheme == "rtmps" else None
                name = to.host if tls is not None else None
                await loop.create_connection(lambda: self, to.host, to.port, ssl=tls, server_hostname=name)
        except ssl.SSLCertVerificationError as error:
            self._lose(Failure("tls", "", f"The certificate is not valid: {error.verify_message or error.reason}."))
        except ssl.SSLError as error:
            self._lose(Failure("tls", "", f"TLS was refused: {error.reason or 'what answers speaks no TLS'}."))
        except OSError as error:
            self._lose(Failure("connect", "", f"Nobody answers: {error.strerror or error}."))
        finally:
            self._dialling = None

    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=None if self._ca is None else str(self._ca))
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context

    # --- The transport ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        around = self._around
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is none by its class, but has its methods.
        if self._is_over:
            self.transport.abort()
            return
        tune(transport.get_extra_info("socket"), around.unsent_bytes)
        self.rtmp = ClientConnection(around.limits, nonce=os.urandom(NONCE_BYTES), window_bytes=around.window_bytes)
        self.outlet = Outlet(self.transport, self.rtmp.window, self._loop.time, joins=self.to.scheme == "rtmps")
        self._has_transport = True
        self.write()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._around.read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._is_over:
            return
        self._last_received, rtmp = self._loop.time(), self.rtmp
        data = self._around.read_buffer[:nbytes]
        try:
            taken = rtmp.take_media(data)
            found = rtmp.receive_data(data[taken:]) if taken < nbytes else []
        except RemoteProtocolError as error:
            self._lose(Failure("protocol", "", f"What answers breaks the protocol: {error}."))
            return
        for event in found:
            handler = HANDLERS.get(type(event))
            if handler is not None and not self._is_over:
                handler(self, event)
        if self._is_over:
            return
        self.write()
        if self.outlet.is_window_closed:
            self.outlet.follow_window()
            self._resume()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self.outlet.fill()

    def resume_writing(self) -> None:
        self.outlet.drain()
        self._resume()

    def _resume(self) -> None:
        if self.outlet.is_open and not self._is_over:
            self._user.resumed()

    def connection_lost(self, exc: Exception | None) -> None:
        if isinstance(exc, ssl.SSLError):
            self._lose(Failure("tls", "", f"TLS broke: {exc.reason or exc}."))
        elif self._has_begun:
            self._lose(Failure("lost", "", "The connection was closed."))
        else:
            self._lose(Failure("refused", "", "The connection was closed before it had begun."))

    # --- The protocol ---

    def _greeted(self, event: events.HandshakeCompleted) -> None:
        self.rtmp.connect(self.to.app, self.to.tc_url, **self._properties)

    def _answered(self, event: events.ResultReceived) -> None:
        if not event.succeeded and event.procedure in ("connect", "createStream", "play", "publish"):
            self._lose(refusal(event.values[-1] if event.values else None))
        elif event.procedure == "connect":
            self.rtmp.create_stream()
        elif event.procedure == "createStream":
            stream_id = event.values[-1] if event.values else None
            if isinstance(stream_id, float) and 0 < stream_id < 1 << 32:
                self._user.created(int(stream_id))
            else:
                self._lose(Failure("protocol", "", "What answers gave no message stream."))

    def _status(self, event: events.StatusReceived) -> None:
        if event.level == "error":
            self._lose(Failure("lost" if self._has_begun else "refused", event.code, event.description))
        else:
            self._user.status(event)

    def _data(self, event: events.DataReceived) -> None:
        self._user.data(event)

    def _audio(self, event: events.AudioReceived) -> None:
        """Behind an event in the same read; as video, which is rare."""
        if self._sink is not None:
            self._sink.audio(event.timestamp, event.payload)

    def _video(self, event: events.VideoReceived) -> None:
        if self._sink is not None:
            self._sink.video(event.timestamp, event.payload)

    # --- From the clock ---

    def _is_late(self) -> None:
        waited = f"within {self._patience.begin_s:g} s"
        if not self._has_transport:
            self._lose(Failure("connect", "", f"Nobody answers {waited}."))
        else:
            self._lose(Failure("protocol", "", f"It has not begun {waited}."))

    def _watch(self) -> None:
        now, patience = self._loop.time(), self._patience
        self._timer = self._loop.call_later(WATCH_S, self._watch)
        if self._pinged_at is not None and self._last_received < self._pinged_at:
            if now - self._pinged_at >= patience.answer_s:
                waited = f"{patience.quiet_s + patience.answer_s:g} s"
                self._lose(Failure("lost", "", f"Nothing was heard of it for {waited}, though it was pinged."))
        elif now - self._last_received >= patience.quiet_s:
            self._pinged_at = now
            self.rtmp.send_ping(int((now - self._opened) * 1000) & 0xFFFFFFFF)
            self.write()


def refusal(info: Any) -> Failure:
    """By the object of an `_error`, which peers fill as they like."""
    found = info if isinstance(info, Mapping) else {}
    code, description = text(found.get("code")), text(found.get("description"))
    return Failure("refused", code, description or code or "It was refused without a reason.")


HANDLERS: Final[dict[type, Callable[[Any, Any], None]]] = {
    events.HandshakeCompleted: Outgoing._greeted,
    events.ResultReceived: Outgoing._answered,
    events.StatusReceived: Outgoing._status,
    events.DataReceived: Outgoing._data,
    events.AudioReceived: Outgoing._audio,
    events.VideoReceived: Outgoing._video,
}
