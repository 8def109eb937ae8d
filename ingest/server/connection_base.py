"""A connection of any kind, RTMP's or a media request's: it ends once, for one reason, and its sessions with it.

`end` (the server's wish) or `connection_lost` (the peer's) stops them, and when the transport is gone the application
gets `rtmp.disconnect`, its last event.
"""

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, cast

from ingest.contracts import EndReason
from ingest.log_records import about
from ingest.server.application import NO_TOTALS, ApplicationSide, Scheme, Session
from ingest.server.asgi import DisconnectReason, Ending, session_reason
from ingest.server.config import Deadlines
from ingest.server.output import Outlet
from ingest.server.sockets import address, tune

if TYPE_CHECKING:
    from ingest.server.context import ServerContext

logger = logging.getLogger("ingest.server.connection")


class BaseConnection(asyncio.BufferedProtocol):
    __slots__ = (
        *("close_at", "control", "ending", "idle_since", "local", "loop", "lost", "opened", "outlet", "peer", "scheme"),
        *("server", "sessions", "transport"),
    )

    transport: asyncio.Transport
    outlet: Outlet
    control: ApplicationSide

    def __init__(self, server: "ServerContext", scheme: Scheme) -> None:
        self.server = server
        self.scheme: Scheme = scheme
        self.loop = server.loop
        self.peer: tuple[str, int] = ("", 0)
        """Who connects: from a trusted proxy, once its request is read, the client behind it, whose port is 0."""
        self.local: tuple[str, int] = ("", 0)
        self.sessions: dict[int, Session] = {}
        self.ending: Ending | None = None
        self.opened = self.loop.time()
        self.idle_since: float | None = None
        """Since when it neither publishes nor plays, if it does neither: from its handshake on."""
        self.close_at: float | None = None
        """When the server closes a connection that is ending, unless the peer did before."""
        self.lost = False

    # --- The transport ---

    def _connect(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is none by its class, but has its methods.
        self.peer = address(transport.get_extra_info("peername"))
        self.local = address(transport.get_extra_info("sockname"))

    def _is_admitted(self, *, is_proxy: bool = False) -> bool:
        """It counts from here on; one too many is gone at once."""
        if not self.server.admit(self, is_proxy=is_proxy):
            self.lost = True
            self.transport.abort()
            return False
        tune(self.transport.get_extra_info("socket"), self.server.config.unsent_bytes)
        return True

    def _bound_writing(self) -> None:
        config = self.server.config
        self.transport.set_write_buffer_limits(config.write_high_bytes, config.write_low_bytes)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.server.read_buffer

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self.outlet.fill()

    def resume_writing(self) -> None:
        self.outlet.drain()
        self._resume_players()

    def _resume_players(self) -> None:
        if self.outlet.is_open:
            for session in self.sessions.values():
                session.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.lost:
            return
        self.lost = True
        if self.ending is None:
            self.ending = self.control.peer_ending()
        try:
            self._end_sessions(self.ending, tell=False)
        finally:
            self.control.lost()

    # --- Ends ---

    def _end_sessions(self, ending: Ending, *, tell: bool) -> None:
        now = self.loop.time()
        for session in list(self.sessions.values()):
            self.end_session(session, session_reason(ending.reason), ending.description, now, tell=tell)

    def end_session(self, session: Session, reason: EndReason, description: str, now: float, *, tell: bool) -> None:
        """Stop one session and report it, once. `tell`: let the client know, as far as its protocol has words."""
        if self.sessions.get(session.stream_id) is not session:
            return
        del self.sessions[session.stream_id]
        self.server.sessions.pop(session.session_id, None)
        totals, control = NO_TOTALS, self.control
        with control.in_any_case(session):
            session.before_stop(reason, description, now)
        with control.in_any_case(session):
            totals = session.stop(now)
        with control.in_any_case(session):
            if tell:
                control.send_end(session, reason, description, now)
        if not self.sessions:
            self.idle_since = now
        control.session_ended(session, reason, description, totals)

    def stop_session(
        self, session: Session, reason: EndReason, description: str = "", *, keep_open: bool = False
    ) -> None:
        """The server ends a session. The connection follows when it was the only one, as many clients don't listen."""
        raise NotImplementedError

    def end(
        self, reason: DisconnectReason, description: str, *, tell: bool = True, linger_s: float | None = None
    ) -> None:
        """End all sessions, then close: after `linger_s` (the configured time if None), or at once for 0."""
        if self.ending:
            return
        self.ending = Ending(reason, description)
        if self.lost:
            return
        now = self.loop.time()
        self._end_sessions(self.ending, tell=tell)
        self._write_last(self.ending, tell=tell)
        linger = self.server.config.deadlines.linger_s if linger_s is None else linger_s
        self.close_at = now + linger
        if not linger:
            self.transport.close()

    def _write_last(self, ending: Ending, *, tell: bool) -> None:
        raise NotImplementedError

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

    # --- From the clock ---

    def sweep(self, deadlines: Deadlines, now: float) -> None:
        raise NotImplementedError
