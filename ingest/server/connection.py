"""One RTMP connection: bytes from the transport to the protocol, its events to sessions and the application, and back.

A connection ends once, for one reason: `end` (the server's wish) or `connection_lost` (the peer's) stops its sessions,
and when the transport is gone the application gets `rtmp.disconnect`, its last event.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Iterable
from typing import Any, Literal, cast

from ingest.contracts import EndReason, MediaInfo
from ingest.log_records import about
from ingest.rtmp import RemoteProtocolError, ServerConnection, events
from ingest.server.application import NO_TOTALS
from ingest.server.asgi import DESCRIPTIONS, DisconnectReason, Ending, session_reason
from ingest.server.calls import CALL_EVENTS
from ingest.server.connection_limits import RateLimit
from ingest.server.control import Control
from ingest.server.output import Outlet
from ingest.server.play_requests import PLAY_EVENTS
from ingest.server.playing import Player
from ingest.server.ports import Hub, Session
from ingest.server.publishing import Publishing
from ingest.server.read_batching import ReadBatching
from ingest.server.shared_objects import OBJECT_EVENTS
from ingest.server.sockets import address, tune

logger = logging.getLogger(__name__)

NONCE_BYTES = 1528

BURST_S = 5.0
"""Over which rates of `Limits` are means: a network that stalled delivers some seconds at once."""

RATES = (
    ("control_messages", "control messages and commands"),
    ("play_commands", "pauses, seeks and the like"),
    ("media_messages", "media messages"),
    ("small_chunks", "small chunks"),
)
"""What `ServerConnection` counts, and how it is called. The limit has the same name and `_per_s`."""


class Connection(asyncio.BufferedProtocol):
    """The asyncio shell around one `ServerConnection`."""

    __slots__ = (
        "_backlog",
        "_batching",
        "_greeted",
        "_is_read_once",
        "_ping_timestamp",
        "_reading_paused",
        "allowances",
        "close_at",
        "control",
        "ending",
        "flash_ver",
        "idle_since",
        "is_of_use",
        "last_received",
        "local",
        "look_at",
        "loop",
        "lost",
        "opened",
        "outlet",
        "peer",
        "ping_sent",
        "pinged_at",
        "read_fd",
        "ready_since",
        "round_trip_ms",
        "rtmp",
        "scheme",
        "server",
        "sessions",
        "transport",
    )

    transport: asyncio.Transport
    rtmp: ServerConnection
    outlet: Outlet
    control: Control

    def __init__(self, server: "Hub[Connection]", scheme: Literal["rtmp", "rtmps"] = "rtmp") -> None:
        self.server = server
        self.scheme = scheme
        self.loop = server.loop
        self.peer: tuple[str, int] = ("", 0)
        self.local: tuple[str, int] = ("", 0)
        self.flash_ver = ""
        self.sessions: dict[int, Session] = {}
        self.ending: Ending | None = None
        self.opened = self.last_received = self.loop.time()
        self.ready_since: float | None = None
        """When the handshake was complete."""
        self.round_trip_ms: float | None = None
        """As measured by the protocol: first by the handshake, then by pings."""
        self._greeted: float | None = None
        """When S0, S1 and S2 were written."""
        self.idle_since: float | None = None
        """Since when it neither publishes nor plays, if it does neither: from its handshake on."""
        self.is_of_use = False
        """Without publishing or playing: it calls procedures, or shares objects."""
        self.ping_sent: float | None = None
        """When the peer was asked for a sign of life."""
        self.pinged_at = self.opened
        """When the latest ping was sent."""
        self._ping_timestamp: int | None = None
        """What it carries, if it isn't answered."""
        self.close_at: float | None = None
        """When the server closes a connection that is ending, unless the peer did before."""
        self.allowances = [
            RateLimit(getattr(server.config.limits, f"{counted}_per_s"), BURST_S, self.opened) for counted, _ in RATES
        ]
        """In the order of RATES."""
        self.lost = False
        self.look_at = 0.0
        """When the sweep looks at it again, at the latest; see `deadlines`."""
        self._reading_paused = False
        self.read_fd: int | None = None
        """Its socket, unless TLS is between."""
        self._batching: ReadBatching | None = None
        """Where it is read from, instead of at once,"""
        self._is_read_once = False
        """and of TLS, that its turn has come."""
        self._backlog: list[events.Event] = []

    # --- The transport ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Plain: TCP's connection is there. TLS, accepted before: its handshake is done."""
        if self.scheme == "rtmp":
            self.accepted(transport)
        else:
            self.transport = cast("asyncio.Transport", transport)
        if self.ending or self.lost:
            transport.abort()  # type: ignore[attr-defined]
            return
        config = self.server.config
        self.transport.set_write_buffer_limits(config.write_high_bytes, config.write_low_bytes)
        self.outlet.transport = self.transport
        if self.scheme == "rtmp":
            self.read_fd = transport.get_extra_info("socket").fileno()

    def accepted(self, transport: asyncio.BaseTransport) -> None:
        """TCP's connection is there: it counts from here on."""
        config = self.server.config
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is none by its class, but has its methods.
        self.peer = address(transport.get_extra_info("peername"))
        self.local = address(transport.get_extra_info("sockname"))
        self.rtmp = ServerConnection(config.limits, nonce=os.urandom(NONCE_BYTES), window_bytes=config.window_bytes)
        self.outlet = Outlet(self.transport, self.rtmp.window, self.loop.time, joins=self.scheme == "rtmps")
        self.control = Control(self)
        if not self.server.admit(self):
            self.lost = True
            self.transport.abort()
            return
        tune(transport.get_extra_info("socket"), self.server.config.unsent_bytes)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.server.read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.received(nbytes, self.loop.time())
        if self._is_read_once:
            self._is_read_once = False
            self._follow_pause()
        elif self._batching is None:
            batching = self._batching_of()
            if batching is not None and batching.takes(self, nbytes):
                self._batching = batching
                self._follow_pause()
                batching.join(self)

    def received(self, nbytes: int, now: float) -> None:
        self.last_received = now
        if self.ending:
            return  # Read and forgotten, so that the close that follows is no reset.
        data, rtmp = self.server.read_buffer[:nbytes], self.rtmp
        taken = rtmp.take_media(data)
        try:
            found = rtmp.receive_data(data[taken:]) if taken < nbytes else []
        except RemoteProtocolError as error:
            self.fail(error)
            return
        if found or rtmp.has_output:  # Often there is neither: media go to their sink.
            self.process(found, now)
            if self._batching is not None and self._batching_of() is not self._batching:
                self.read_at_once()

    # --- Read in batches (see `read_batching`) ---

    def _batching_of(self) -> ReadBatching | None:
        """Where it may be read in batches, as all that it does is to publish."""
        if self.rtmp.paused or self.ending:
            return None
        is_watched = False
        for session in self.sessions.values():
            if type(session) is not Publishing or not session.has_media:
                return None
            is_watched = is_watched or session.is_watched
        if not is_watched:
            return self.server.read_batching if self.sessions else None
        return self.server.watched_batching if self.read_fd is not None else None

    def read_at_once(self) -> None:
        """Its players have come, or gone."""
        self.server.watched_batching.leave(self)
        if self._batching is not None:
            self._batching.leave(self)
            self.read_on()

    def read_on(self) -> None:
        self._batching, self._is_read_once = None, False
        self._follow_pause()

    def read_once(self) -> None:
        self._is_read_once = True
        self._follow_pause()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self.outlet.fill()

    def resume_writing(self) -> None:
        self.outlet.drain()
        self._resume_players()

    def follow_window(self) -> None:
        """Go on if the peer's window has opened."""
        if self.outlet.is_window_closed:
            self.outlet.follow_window()
            self._resume_players()

    def _resume_players(self) -> None:
        if self.outlet.is_open:
            for session in self.sessions.values():
                if isinstance(session, Player):
                    session.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.lost:
            return
        self.lost = True
        self.server.read_batching.leave(self)
        self.server.watched_batching.leave(self)
        if self.ending is None:
            self.ending = self.control.peer_ending()
        now = self.loop.time()
        reason = session_reason(self.ending.reason)
        try:
            for session in list(self.sessions.values()):
                self.end_session(session, reason, self.ending.description, now, tell=False)
            self.server.objects.leave(self)
        finally:
            self.control.lost()

    # --- Protocol events ---

    def process(self, found: Iterable[events.Event], now: float) -> None:
        """Handle events and those that handling them made, then write what the protocol queued."""
        queue = found
        while True:
            for event in queue:
                handler = HANDLERS.get(type(event))
                if handler:
                    handler(self, event, now)
            if self._backlog:
                queue, self._backlog = self._backlog, []
            elif self.rtmp.has_more_events and not self.ending:
                try:
                    queue = self.rtmp.events()
                except RemoteProtocolError as error:
                    self.fail(error)
                    return
            else:
                break
        self.write_control()
        self.follow_window()
        self._follow_pause()

    def after_decision(self, now: float) -> None:
        """Go on with what arrived while the decision was awaited."""
        try:
            found = self.rtmp.events()
        except RemoteProtocolError as error:
            self.fail(error)
        else:
            self.process(found, now)

    def collect_statuses(self, now: float) -> None:
        """Report the onStatus messages that were just queued; other events keep their turn."""
        for event in self.rtmp.take_events():
            if type(event) is events.StatusSent:
                self.control.status_sent(event, now)
            else:
                self._backlog.append(event)

    def described(self, session: Session, metadata: dict[str, Any], media: MediaInfo) -> None:
        self.control.description_changed(session, metadata, media)

    def _follow_pause(self) -> None:
        wanted = (self.rtmp.paused or (self._batching is not None and not self._is_read_once)) and not self.ending
        if wanted != self._reading_paused and not self.lost and not self.transport.is_closing():
            self._reading_paused = wanted
            if wanted:
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()

    def _handshake_completed(self, event: events.HandshakeCompleted, now: float) -> None:
        self.ready_since = self.idle_since = now
        if event.echoed and self._greeted is not None:
            self.round_trip_ms = (now - self._greeted) * 1000

    def _audio(self, event: events.AudioReceived, _now: float) -> None:
        session = self.sessions.get(event.stream_id)
        if type(session) is Publishing:
            session.audio(event.timestamp, event.payload)

    def _video(self, event: events.VideoReceived, _now: float) -> None:
        session = self.sessions.get(event.stream_id)
        if type(session) is Publishing:
            session.video(event.timestamp, event.payload)

    def _data(self, event: events.DataReceived, now: float) -> None:
        session = self.sessions.get(event.stream_id)
        if type(session) is Publishing:
            session.data(event.timestamp, event.name, event.values, event.payload, now, kept=event.kept)

    def _stopped(self, event: events.PublishStopped | events.PlayStopped, now: float) -> None:
        session = self.sessions.get(event.stream_id)
        if session:
            self.end_session(session, "client_unpublish", f"{event.command} from the client.", now, tell=False)

    # --- Ends ---

    def end_session(self, session: Session, reason: EndReason, description: str, now: float, *, tell: bool) -> None:
        """Stop one session and report it, once. `tell`: let the client know by an onStatus."""
        if self.sessions.get(session.stream_id) is not session:
            return
        del self.sessions[session.stream_id]
        self.server.sessions.pop(session.session_id, None)
        totals = NO_TOTALS
        with self.control.in_any_case(session):
            if isinstance(session, Player) and session.switch:
                session.switch.give_up(reason, description, now)
        with self.control.in_any_case(session):
            totals = session.stop(now)
        with self.control.in_any_case(session):
            if tell:
                self.control.tell_end(session, reason, description, now)
        if not self.sessions:
            self.idle_since = now
        self.control.session_ended(session, reason, description, totals)

    def stop_session(
        self, session: Session, reason: EndReason, description: str = "", *, keep_open: bool = False
    ) -> None:
        """The server ends a session. The connection follows when it was the only one, as many clients don't listen."""
        description = description or DESCRIPTIONS[reason]
        if isinstance(session, Player) and session.switch and session.switch.new is session:
            session.switch.give_up(reason, description, self.loop.time(), tell=True)
            return
        if len(self.sessions) <= 1 and not keep_open:
            self.end(reason, description)
            return
        now = self.loop.time()
        self.end_session(session, reason, description, now, tell=True)
        self.process((), now)

    def fail(self, error: RemoteProtocolError) -> None:
        """The peer broke the protocol. What came before counts; nothing more can be said to it."""
        self.process(self.rtmp.take_events(), self.loop.time())
        self.end("protocol_error", str(error), tell=False, linger_s=0 if self.ready_since is None else None)

    def end(
        self, reason: DisconnectReason, description: str, *, tell: bool = True, linger_s: float | None = None
    ) -> None:
        """End all sessions, then close: after `linger_s` (the configured time if None), or at once for 0."""
        if self.ending:
            return
        self.ending = Ending(reason, description)
        if self.lost:
            return
        self.read_at_once()
        now = self.loop.time()
        for session in list(self.sessions.values()):
            self.end_session(session, session_reason(reason), description, now, tell=tell)
        self.server.objects.leave(self)
        self._backlog.clear()
        self.write_control()
        self.rtmp.window.give_up()  # What is acknowledged is not read any more.
        self.outlet.follow_window()
        self._follow_pause()
        linger = self.server.config.deadlines.linger_s if linger_s is None else linger_s
        self.close_at = now + linger
        if not linger:
            self.transport.close()

    def broken(self, error: Exception) -> None:
        """Our own fault: this connection is given up, the others go on."""
        with about(connection=self.control.id):
            logger.error("%s: given up", self.control.label, exc_info=error)
        self.transport.abort()

    def half_close(self) -> None:
        """Say that nothing more will come, after all that was written; what still arrives is read and forgotten."""
        if not self.lost and not self.transport.is_closing() and self.transport.can_write_eof():
            with contextlib.suppress(OSError):  # The peer is gone already; connection_lost follows.
                self.transport.write_eof()

    def forget(self) -> None:
        self.server.forget(self)

    # --- Output ---

    def ping(self, now: float) -> int:
        """Send a PingRequest. Its timestamp, milliseconds."""
        timestamp = self._ping_timestamp = int((now - self.opened) * 1000) & 0xFFFFFFFF
        self.pinged_at = now
        self.rtmp.send_ping(timestamp)
        self.write_control()
        return timestamp

    def _ping_answered(self, event: events.PingAnswered, now: float) -> None:
        if event.timestamp == self._ping_timestamp:
            self._ping_timestamp = None
            self.round_trip_ms = (now - self.pinged_at) * 1000

    def write_control(self, shared: bytes = b"") -> None:
        data = self.rtmp.data_to_send() + shared
        if not data or self.transport.is_closing():
            return
        self.rtmp.window.sent += len(shared)
        self.outlet.write_control(data)
        if self._greeted is None:
            self._greeted = self.loop.time()
        if self.outlet.control_waiting > self.server.config.control_backlog_bytes:
            self.end("protocol_error", "The peer doesn't read the answers that it asks for.", tell=False, linger_s=0)
            self.transport.abort()


Handler = Callable[[Connection, Any, float], None]

HANDLERS: dict[type, Handler] = {
    events.HandshakeCompleted: Connection._handshake_completed,
    events.AudioReceived: Connection._audio,
    events.VideoReceived: Connection._video,
    events.DataReceived: Connection._data,
    events.PingAnswered: Connection._ping_answered,
    events.PublishStopped: Connection._stopped,
    events.PlayStopped: Connection._stopped,
    events.ConnectRequested: lambda connection, event, now: connection.control.connect_requested(event, now),
    events.PublishRequested: lambda connection, event, now: connection.control.publish_requested(event, now),
    **PLAY_EVENTS,
    **CALL_EVENTS,
    **OBJECT_EVENTS,
    events.StatusSent: lambda connection, event, now: connection.control.status_sent(event, now),
    events.UnknownMessage: lambda connection, event, now: connection.control.not_understood(event, now),
}
"""Events that are not here are answered by the protocol itself."""
