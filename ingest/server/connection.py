"""One RTMP connection: bytes from the transport to the protocol, its events to sessions and application, and back."""

import asyncio
import os
from collections.abc import Callable, Iterable
from typing import Any, Literal

from ingest.contracts import EndReason
from ingest.rtmp import RemoteProtocolError, ServerConnection, events
from ingest.server.asgi import DESCRIPTIONS, Ending, Status
from ingest.server.connection_base import ApplicationSide, Server
from ingest.server.connection_limits import peer_limits
from ingest.server.context import AnySession
from ingest.server.output import Outlet
from ingest.server.publisher_connection import PublisherConnection
from ingest.server.read_batching import ReadBatching

NONCE_BYTES = 1528


class Connection(PublisherConnection):
    __slots__ = (
        *("_backlog", "_batching", "_greeted", "_is_read_once", "_ping_timestamp", "_reading_paused"),
        *("has_activity", "last_received", "limits", "next_check_at", "ping_sent", "pinged_at", "read_fd"),
        *("ready_since", "refusals", "refused_at", "rtmp"),
    )

    rtmp: ServerConnection

    def __init__(
        self, server: Server, scheme: Literal["rtmp", "rtmps"], control_of: Callable[[Any], ApplicationSide]
    ) -> None:
        super().__init__(server, scheme, control_of)
        self.flash_ver = ""
        self.last_received = self.opened
        self.ready_since: float | None = None
        self.round_trip_ms = None
        """First by the handshake, then by pings."""
        self._greeted: float | None = None
        """When S0, S1 and S2 were written."""
        self.has_activity = False
        """Without publishing or playing: it calls procedures, or shares objects."""
        self.refusals: list[Ending] = []
        """Of plays, one after the other, since the connection has played something."""
        self.refused_at = 0.0
        """When the last of them was."""
        self.ping_sent: float | None = None
        """When the peer was asked for a sign of life."""
        self.pinged_at = self.opened
        self._ping_timestamp: int | None = None
        """What it carries, if it isn't answered."""
        self.limits = peer_limits(server.config.limits, self.opened)
        self.next_check_at = 0.0
        """By the sweep, at the latest; see `deadlines`."""
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
            self._connect(transport)
        if self.ending or self.lost:
            transport.abort()  # type: ignore[attr-defined]
            return
        self._bound_writing()
        self.outlet.transport = self.transport
        if self.scheme == "rtmp":
            self.read_fd = transport.get_extra_info("socket").fileno()

    def accepted(self, transport: asyncio.BaseTransport) -> None:
        config = self.server.config
        self._connect(transport)
        self.rtmp = ServerConnection(config.limits, nonce=os.urandom(NONCE_BYTES), window_bytes=config.window_bytes)
        self.outlet = Outlet(self.transport, self.rtmp.window, self.loop.time, joins=self.scheme == "rtmps")
        self.control = self._control_of(self)
        self._is_admitted()

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

    @property
    def received_bytes(self) -> int:
        return self.rtmp.bytes_received

    # --- Read in batches (see `read_batching`) ---

    def _batching_of(self) -> ReadBatching | None:
        """Where it may be read in batches, as all that it does is to publish."""
        if self.rtmp.paused or self.ending:
            return None
        is_watched = False
        for session in self.sessions.values():
            if not session.has_media:
                return None
            is_watched = is_watched or session.is_watched
        if not is_watched:
            return self.server.read_batching if self.sessions else None
        return self.server.watched_batching if self.read_fd is not None else None

    def read_at_once(self) -> None:
        """Its players have come, or gone; or it ends."""
        self.server.read_batching.leave(self)
        self.server.watched_batching.leave(self)
        if self._batching is not None:
            self.read_on()

    def read_on(self) -> None:
        """It is in no batch any more."""
        self._batching, self._is_read_once = None, False
        self._follow_pause()

    def read_once(self) -> None:
        """Its transport is to read, and then to cease again."""
        self._is_read_once = True
        self._follow_pause()

    def follow_window(self) -> None:
        if self.outlet.is_window_closed:
            self.outlet.follow_window()
            self._resume_players()

    # --- Protocol events ---

    def process(self, found: Iterable[events.Event], now: float) -> None:
        """Handle events and those that handling them made, then write what the protocol queued."""
        queue, handlers = found, self.control.event_handlers
        while True:
            for event in queue:
                handler = handlers.get(type(event))
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
        try:
            found = self.rtmp.events()
        except RemoteProtocolError as error:
            self.fail(error)
        else:
            self.process(found, now)

    def send_status(self, stream_id: int, status: Status, now: float, **info: Any) -> None:
        """Queue an onStatus, and report it."""
        self.rtmp.send_status(stream_id, *status, **info)
        self.collect_statuses(now)

    def after_status(self, now: float) -> None:
        self.collect_statuses(now)
        self.process((), now)

    def collect_statuses(self, now: float) -> None:
        """Report the onStatus messages that were just queued; other events keep their turn."""
        for event in self.rtmp.take_events():
            if type(event) is events.StatusSent:
                self.control.event_handlers[events.StatusSent](self, event, now)
            else:
                self._backlog.append(event)

    def _follow_pause(self) -> None:
        wanted = (self.rtmp.paused or (self._batching is not None and not self._is_read_once)) and not self.ending
        if wanted != self._reading_paused and not self.lost and not self.transport.is_closing():
            self._reading_paused = wanted
            if wanted:
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()

    def handshake_completed(self, event: events.HandshakeCompleted, now: float) -> None:
        self.ready_since = self.idle_since = now
        if event.echoed and self._greeted is not None:
            self.round_trip_ms = (now - self._greeted) * 1000

    # --- Ends ---

    def stop_session(
        self, session: AnySession, reason: EndReason, description: str = "", *, keep_open: bool = False
    ) -> None:
        description = description or DESCRIPTIONS[reason]
        now = self.loop.time()
        if session.gives_up(reason, description, now):
            return
        if len(self.sessions) <= 1 and not keep_open:
            self.end(reason, description)
            return
        self.end_session(session, reason, description, now, notify=True)
        self.process((), now)

    def fail(self, error: RemoteProtocolError) -> None:
        """The peer broke the protocol. What came before counts; nothing more can be said to it."""
        self.process(self.rtmp.take_events(), self.loop.time())
        self.end("protocol_error", str(error), notify=False, linger_s=0 if self.ready_since is None else None)

    def _end_sessions(self, ending: Ending, *, notify: bool) -> None:
        self.read_at_once()
        super()._end_sessions(ending, notify=notify)
        self.control.leave()

    def _write_last(self, ending: Ending, *, notify: bool) -> None:
        self._backlog.clear()
        self.write_control()
        self.rtmp.window.give_up()  # What is acknowledged is not read any more.
        self.outlet.follow_window()
        self._follow_pause()

    # --- Output ---

    def ping(self, now: float) -> int:
        """Send a PingRequest. Its timestamp, milliseconds."""
        timestamp = self._ping_timestamp = int((now - self.opened) * 1000) & 0xFFFFFFFF
        self.pinged_at = now
        self.rtmp.send_ping(timestamp)
        self.write_control()
        return timestamp

    def ping_answered(self, event: events.PingAnswered, now: float) -> None:
        if event.timestamp == self._ping_timestamp:
            self._ping_timestamp = None
            self.round_trip_ms = (now - self.pinged_at) * 1000

    def write_control(self, shared: bytes = b"") -> None:
        """Write what the protocol has, then `shared`: whole messages that other connections are sent too."""
        data = self.rtmp.data_to_send() + shared
        if not data or self.transport.is_closing():
            return
        self.rtmp.window.sent += len(shared)
        self.outlet.write_control(data)
        if self._greeted is None:
            self._greeted = self.loop.time()
        if self.outlet.control_waiting > self.server.config.control_backlog_bytes:
            self.end("protocol_error", "The peer doesn't read the answers that it asks for.", notify=False, linger_s=0)
            self.transport.abort()
