"""An RTMP connection that this server makes: to another node, for a stream that it relays, or to another server.

From dialling (a look-up and TCP, or a Unix socket; then TLS for rtmps) by the handshake, `connect` and `createStream`
to a message stream; what that is used for is its user's. It ends once: by `close`, which tells nobody, or as `lost`,
which says why.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Protocol, cast

from ingest.contracts import PushFailure
from ingest.rtmp import ClientConnection, Phase, RemoteProtocolError, events
from ingest.rtmp.capabilities import NO_CAPABILITIES, read_capabilities
from ingest.rtmp.messages.commands import text
from ingest.rtmp.run_reader import MediaSink
from ingest.rtmp.status import level_of
from ingest.server.config import ServerConfig
from ingest.server.connection_limits import RATES, peer_limits
from ingest.server.dialling import Destination, Failure, Forbids, Unreachable, connect_to, look_up, tls_context
from ingest.server.output import Outlet
from ingest.server.sockets import tune

NONCE_BYTES: Final = 1528
WATCH_S: Final = 0.5
"""Between two looks at whether the peer still lives, and keeps to its limits."""
CLOSE_S: Final = 3.0
"""For the last bytes to be taken by the peer."""


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
    """and has so long to answer. `inf`, both: TCP alone tells whether it lives, as many servers answer no ping."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all connections of a server share."""

    loop: asyncio.AbstractEventLoop
    read_buffer: memoryview
    config: ServerConfig


WITHOUT_A_WORD: Final = "It was closed without a word: most often, as the application in the URL or the key is unknown."

UNREAD: Final = Failure("slow", "", "It does not read what it is told.")

Prepare = Callable[[ClientConnection], None]
"""Queues what is said between the answer to `connect` and `createStream`."""

Stage = Literal["look-up", "connect", "tls", "protocol"]

LATE: Final[dict[Stage, tuple[PushFailure, str]]] = {
    "look-up": ("address", "Its name was not looked up within {:g} s."),
    "connect": ("connect", "Nobody answers within {:g} s."),
    "tls": ("tls", "TLS was not agreed on within {:g} s."),
    "protocol": ("protocol", "It has not begun within {:g} s."),
}


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
        forbids: Forbids | None = None,
        prepare: Prepare | None = None,
    ) -> None:
        """Dials at once. `properties`: of `connect`. `ca`: as `RelaySettings.ca`. `forbids`: None: every address may be
        dialled."""
        self.to = to
        self._user = user
        self._around = surroundings
        self._patience = patience
        self._properties = dict(properties or {})
        self._ca = ca
        self._forbids = forbids
        self._prepare = prepare
        self._loop = surroundings.loop
        self._is_over = False
        self._has_begun = self._has_transport = self._is_paused = False
        self._stage: Stage = "look-up"
        self._opened = self._last_received = self._loop.time()
        self._limits = peer_limits(surroundings.config.limits, self._opened)
        self._pinged_at: float | None = None
        self._sink: MediaSink | None = None
        self.capabilities = NO_CAPABILITIES
        """The peer's, as it answered `connect`."""
        self._timer = self._loop.call_later(patience.begin_s, self._is_late)
        self._watching: asyncio.TimerHandle | None = None
        self._dialling: asyncio.Task[None] | None = self._loop.create_task(self._dial())

    # --- Its user's side ---

    def play(self, stream_id: int, name: str, sink: MediaSink) -> None:
        self._sink = sink
        self.rtmp.play(stream_id, name, sink=sink)

    def send_to(self, sink: MediaSink | None) -> None:
        """What it plays goes there from now on; None: nowhere. Not to be called by its former sink."""
        self._sink = sink
        self.rtmp.send_to(sink)

    def begun(self) -> None:
        """It does what it is there for. From now on the peer has to live, and no more."""
        self._has_begun = True
        self._timer.cancel()

    def write(self) -> None:
        """What the protocol has queued."""
        if self._has_transport and not self._is_over:
            self.tell(self.rtmp.data_to_send())

    def tell(self, data: bytes) -> None:
        """Write what the protocol has counted already. There is an end to what the peer may leave unread of that."""
        if data:
            self.outlet.write_control(data)
        if self.outlet.control_waiting > self._around.config.control_backlog_bytes:
            self.lose(UNREAD)

    def hold(self) -> None:
        """Read nothing more for a while; what was read already comes all the same."""
        self._is_paused = True
        self.transport.pause_reading()

    def go_on(self) -> None:
        if self._is_paused and not self._is_over:
            self._is_paused, self._last_received = False, self._loop.time()
            self.transport.resume_reading()

    def close(self) -> None:
        """End it; nobody is told."""
        if self._is_over:
            return
        self._is_over = True
        if self._has_transport and (data := self.rtmp.data_to_send()):
            self.outlet.write_control(data)
        self._timer.cancel()
        if self._watching is not None:
            self._watching.cancel()
        if self._dialling is not None:
            self._dialling.cancel()
        if self._has_transport:
            self.transport.close()
            self._loop.call_later(CLOSE_S, self.transport.abort)

    def lose(self, failure: Failure) -> None:
        """It has failed, as its user finds too: end it, and tell the user."""
        if self._is_over:
            return
        self.close()
        if self._has_transport:
            self.transport.abort()
        self._user.lost(failure)

    @property
    def received_bytes(self) -> int:
        return self.rtmp.bytes_received if self._has_transport else 0

    @property
    def tcp_socket(self) -> socket.socket | None:
        found: socket.socket | None = self.transport.get_extra_info("socket") if self._has_transport else None
        return found

    # --- Dialling ---

    async def _dial(self) -> None:
        to, loop = self.to, self._loop
        try:
            if to.scheme == "unix":
                self._stage = "connect"
                await loop.create_unix_connection(lambda: self, to.host)
                return
            places = await look_up(to, self._forbids)
            self._stage = "connect"
            connected = await connect_to(places, self._patience.begin_s)
            if to.scheme == "rtmps":
                self._stage = "tls"
                tls = tls_context(self._ca)
                await loop.create_connection(lambda: self, sock=connected, ssl=tls, server_hostname=to.host.rstrip("."))
            else:
                await loop.create_connection(lambda: self, sock=connected)
        except Unreachable as found:
            self.lose(found.failure)
        except ssl.SSLCertVerificationError as error:
            why = (error.verify_message or error.reason or "unknown").rstrip(".")
            self.lose(Failure("tls", "", f"The certificate is not valid: {why}."))
        except ssl.SSLError as error:
            self.lose(Failure("tls", "", f"TLS was refused: {error.reason or 'what answers speaks no TLS'}."))
        except (OSError, ValueError) as error:  # ValueError: a name that no certificate can have.
            number = getattr(error, "errno", None)
            why = os.strerror(number) if number else str(error) or "not in time"
            if self._stage == "tls":
                self.lose(Failure("tls", "", f"TLS was not agreed on: {why}."))
            else:
                self.lose(Failure("connect", "", f"Nobody answers: {why}."))
        finally:
            self._dialling = None

    # --- The transport ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        around = self._around
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is none by its class, but has its methods.
        if self._is_over:
            self.transport.abort()
            return
        config = around.config
        tune(transport.get_extra_info("socket"), config.unsent_bytes)
        self.transport.set_write_buffer_limits(config.write_high_bytes, config.write_low_bytes)
        self.rtmp = ClientConnection(config.limits, nonce=os.urandom(NONCE_BYTES), window_bytes=config.window_bytes)
        self.outlet = Outlet(self.transport, self.rtmp.window, self._loop.time, joins=self.to.scheme == "rtmps")
        self._has_transport, self._stage = True, "protocol"
        self._watching = self._loop.call_later(WATCH_S, self._watch)
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
            self.lose(Failure("protocol", "", f"What answers breaks the protocol: {error}."))
            return
        for event in found:
            handler = HANDLERS.get(type(event))
            if handler is not None and not self._is_over:
                handler(self, event)
        if self._is_over:
            return
        self.write()
        self._follow_window()

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

    def _follow_window(self) -> None:
        if self.outlet.is_window_closed:
            self.outlet.follow_window()
            self._resume()

    def connection_lost(self, exc: Exception | None) -> None:
        if isinstance(exc, ssl.SSLError):
            self.lose(Failure("tls", "", f"TLS broke: {exc.reason or exc}."))
        elif self._has_begun:
            self.lose(Failure("lost", "", "The connection was closed."))
        elif self._has_transport and self.rtmp.phase is Phase.HANDSHAKE:
            self.lose(Failure("protocol", "", "It was closed during the handshake: most likely it is no RTMP server."))
        else:
            self.lose(Failure("refused", "", WITHOUT_A_WORD))

    # --- The protocol ---

    def _greeted(self, event: events.HandshakeCompleted) -> None:
        self.rtmp.connect(self.to.app, self.to.tc_url, **self._properties)

    def _answered(self, event: events.ResultReceived) -> None:
        if not event.succeeded and event.procedure in ("connect", "createStream", "play", "publish"):
            info = event.values[-1] if event.values else None
            self.lose(redirected(info) if event.procedure == "connect" else refusal(info))
        elif event.procedure == "connect":
            said = [each for each in event.values if isinstance(each, Mapping)]
            self.capabilities = read_capabilities({name: value for each in said for name, value in each.items()})
            if self._prepare is not None:
                self._prepare(self.rtmp)
            self.rtmp.create_stream()
        elif event.procedure == "createStream":
            stream_id = event.values[-1] if event.values else None
            if isinstance(stream_id, float) and 0 < stream_id < 1 << 32:
                self._user.created(int(stream_id))
            else:
                self.lose(Failure("protocol", "", "What answers gave no message stream."))

    def _status(self, event: events.StatusReceived) -> None:
        if event.level == "error" or level_of(event.code) == "error":
            failure = refusal(event.info)
            self.lose(failure._replace(kind="lost") if self._has_begun else failure)
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
        kind, words = LATE[self._stage]
        self.lose(Failure(kind, "", words.format(self._patience.begin_s)))

    def _watch(self) -> None:
        now = self._loop.time()
        self._watching = self._loop.call_later(WATCH_S, self._watch)
        for (counted, name), limit in zip(RATES, self._limits, strict=True):
            if limit.is_passed(getattr(self.rtmp, counted, 0), now):
                self.lose(Failure("protocol", "", f"It sends more than {limit.per_second:g} {name} a second."))
                return
        if self.outlet.check_window(now, self._around.config.deadlines.window_s, self._ping):
            self._follow_window()
        if self._has_begun and not self._is_paused:
            self._look_for_life(now)

    def _look_for_life(self, now: float) -> None:
        patience = self._patience
        if self._pinged_at is not None and self._last_received < self._pinged_at:
            if now - self._pinged_at >= patience.answer_s:
                waited = f"{patience.quiet_s + patience.answer_s:g} s"
                self.lose(Failure("lost", "", f"Nothing was heard of it for {waited}, though it was pinged."))
        elif now - self._last_received >= patience.quiet_s:
            self._pinged_at = now
            self._ping(now)

    def _ping(self, now: float) -> int:
        """The timestamp that it carries."""
        timestamp = int((now - self._opened) * 1000) & 0xFFFFFFFF
        self.rtmp.send_ping(timestamp)
        self.write()
        return timestamp


REDIRECTS: Final = 302
"""Within the refusal of `connect`, as Flash Media Server has it: its object `ex` has this code, and `redirect`."""


def refusal(info: Any) -> Failure:
    """By the object of an `_error`, which peers fill as they like."""
    found = info if isinstance(info, Mapping) else {}
    code, description = text(found.get("code")), text(found.get("description"))
    return Failure("refused", code, description or code or "It was refused without a reason.")


def redirected(info: Any) -> Failure:
    """The same of `connect`, which may be refused with another server's URL."""
    more = info.get("ex") if isinstance(info, Mapping) else None
    redirect = text(more.get("redirect")) if isinstance(more, Mapping) and more.get("code") == REDIRECTS else ""
    return refusal(info)._replace(redirect=redirect)


HANDLERS: Final[dict[type, Callable[[Any, Any], None]]] = {
    events.HandshakeCompleted: Outgoing._greeted,
    events.ResultReceived: Outgoing._answered,
    events.StatusReceived: Outgoing._status,
    events.DataReceived: Outgoing._data,
    events.AudioReceived: Outgoing._audio,
    events.VideoReceived: Outgoing._video,
}
