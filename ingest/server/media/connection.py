"""One connection of the media listener: a request's head, the application's answer, then FLV until one side ends it.

It serves one request. It ends once, for one reason, as an RTMP connection does; whoever had no request that the
application was asked about is nobody that it hears of, but for those that broke HTTP or came from a foreign page.
"""

import asyncio
import contextlib
import logging
from http import HTTPStatus
from typing import Final, Literal, cast

from ingest import addresses
from ingest.contracts import EndReason, PlayAccept
from ingest.log_records import about
from ingest.rtmp.flow import SendingWindow
from ingest.server.application import NO_TOTALS
from ingest.server.asgi import DESCRIPTIONS, STREAM_ENDED, DisconnectReason, Ending, session_reason
from ingest.server.config import Deadlines
from ingest.server.connection_limits import RateLimit
from ingest.server.deadlines import closing, write_stuck
from ingest.server.media import http
from ingest.server.media.http import (
    Answer,
    Header,
    HttpExchange,
    Origins,
    Request,
    UnreadableRequest,
    UnusableUpgrade,
    WebSocketExchange,
)
from ingest.server.media.live_viewer import STREAM_ID, LiveViewer
from ingest.server.media.recording_viewer import FLV, GONE, RecordingViewer
from ingest.server.media.requests import MediaControl, Target, UnreadableTarget, read_caller, read_target, start_of
from ingest.server.output import Outlet
from ingest.server.ports import Hub, Session
from ingest.server.sockets import address, tune

logger = logging.getLogger(__name__)

BURST_S: Final = 5.0
"""Over which the rate of what a viewer may send is a mean."""


class MediaConnection(asyncio.BufferedProtocol):
    """The asyncio shell around one request."""

    transport: asyncio.Transport
    outlet: Outlet
    control: MediaControl

    def __init__(self, server: "Hub[MediaConnection]") -> None:
        self.server = server
        self.loop = server.loop
        self.scheme: Literal["rtmp", "rtmps", "http", "ws"] = "http"
        self.peer: tuple[str, int] = ("", 0)
        """Who asks: from a trusted proxy, once its request is read, the client behind it, whose port is 0."""
        self.is_proxy = False
        self.local: tuple[str, int] = ("", 0)
        self.sessions: dict[int, Session] = {}
        self.ending: Ending | None = None
        self.close_at: float | None = None
        """When the server closes a connection that is ending, unless the peer did before."""
        self.lost = False
        self.opened = self.loop.time()
        config = server.config
        self._http = HttpExchange(config.media_head_bytes)
        self._origins = Origins(config.media_origins)
        self._cors: tuple[Header, ...] = ()
        self._request: Request | None = None
        self._target: Target | None = None
        self._start_ms: int | None = None
        """Of a recording; None: from its beginning, the file as it is."""
        self._socket: WebSocketExchange | None = None
        """Of a request for a WebSocket."""
        self._has_answered = False
        """Whether a response has begun."""
        self._is_attempt = False
        """Whether operators are told of it although the application was asked nothing."""
        self._received_bytes = 0
        self._allowance = RateLimit(config.viewer_bytes_per_s, BURST_S, self.opened)
        """For what comes behind the head."""
        self._passed_bytes = 0
        """In both directions, when it was looked at."""
        self._quiet_since = self.opened
        """Since when that stands still."""
        self._ping_sent: float | None = None

    # --- The transport ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        config = self.server.config
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is none by its class, but has its methods.
        self.peer = address(transport.get_extra_info("peername"))
        self.is_proxy = addresses.is_in(self.peer[0], config.trusted_proxies)
        self.local = address(transport.get_extra_info("sockname"))
        self.outlet = Outlet(self.transport, SendingWindow(), self.loop.time, joins=False)
        self.control = MediaControl(self)
        if not self.server.admit(self):
            self.lost = True
            self.transport.abort()
            return
        self.transport.set_write_buffer_limits(config.write_high_bytes, config.write_low_bytes)
        tune(transport.get_extra_info("socket"), self.server.config.unsent_bytes)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.server.read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self.ending:
            return  # Read and forgotten, so that the close that follows is no reset.
        data = bytes(self.server.read_buffer[:nbytes])
        if self._request is None:
            self._read_head(data)
            return
        self._received_bytes += nbytes
        if self._socket and self._has_answered:
            self._hear(data)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self.outlet.fill()

    def resume_writing(self) -> None:
        self.outlet.drain()
        for session in self.sessions.values():
            if isinstance(session, LiveViewer | RecordingViewer):
                session.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.lost:
            return
        self.lost = True
        if self.ending is None:
            self.ending = Ending("tcp_reset", DESCRIPTIONS["tcp_reset"])
        now = self.loop.time()
        try:
            for session in list(self.sessions.values()):
                reason = session_reason(self.ending.reason)
                self.end_session(session, reason, self.ending.description, now, tell=False)
        finally:
            if self.control.driver or self._is_attempt:
                self.control.lost()
            else:
                self.forget()

    def forget(self) -> None:
        self.server.forget(self)

    # --- The request ---

    def _read_head(self, data: bytes) -> None:
        try:
            request = self._http.receive(data)
        except UnreadableRequest as error:
            self._break(error.answer)
            return
        if request is None:
            self._is_attempt = True  # Until the rest of it comes.
            return
        self._is_attempt = False
        self._request = request
        if self.is_proxy and not self._is_for_client(request):
            self.refuse(http.TOO_MANY)
            return
        origin = request.field("Origin")
        if request.method not in http.METHODS:
            self.refuse(http.WRONG_METHOD)
        elif not self._origins.allows(origin):
            self._is_attempt = True
            self.refuse(http.FOREIGN_PAGE)
        else:
            self._cors = self._origins.headers(origin)
            self._route(request)

    def _is_for_client(self, request: Request) -> bool:
        """Takes the client's address for its proxy's. False: that has as many connections as it may."""
        proxy, trusted = self.peer[0], self.server.config.trusted_proxies
        client = addresses.client_of(proxy, request.fields("X-Forwarded-For"), trusted)
        if client != proxy:
            if not self.server.places.move(proxy, client):
                return False
            self.peer = (client, 0)
        return True

    def _route(self, request: Request) -> None:
        try:
            target = read_target(request.head.target)
        except UnreadableTarget:
            self._break(http.UNREADABLE)
            return
        if target is None:
            self.refuse(http.NOTHING_HERE)
        elif request.method == "OPTIONS":
            self.refuse(http.PREFLIGHT)
        elif self.server.draining:
            self.refuse(http.STOPPING)
        else:
            try:
                self._start_ms = start_of(target)
            except UnreadableTarget:
                self.refuse(http.WRONG_START)
            else:
                self._ask_for(target, request)

    def _ask_for(self, target: Target, request: Request) -> None:
        if request.upgrades:
            try:
                self._socket = WebSocketExchange(request.head)
            except UnusableUpgrade:
                self._break(http.UNUSABLE_UPGRADE)
                return
            self.scheme = "ws"
        self._target = target
        self.control.ask_for(target, read_caller(request, self.scheme, target), self.loop.time())

    def _break(self, answer: Answer) -> None:
        """What came is no request, or none that makes sense."""
        self._is_attempt = True
        self.refuse(answer, reason="protocol_error")

    def refuse(self, answer: Answer, description: str = "", *, reason: DisconnectReason = "rejected") -> None:
        """The only response, a small one. `description`: for the operator."""
        if self.ending or self._has_answered:
            return
        self._answer(self._http.answer(answer, self._cors))
        self.end(reason, description or answer.detail)

    def play(self, accept: PlayAccept) -> None:
        """What the application lets this viewer have."""
        assert self._request is not None  # noqa: S101 - what was asked came from it.
        assert self._target is not None  # noqa: S101 - likewise.
        if self._target.kind == "recordings":
            self._read(accept, self._request)
            return
        self.respond(HTTPStatus.OK, (FLV,))
        if self.ending:
            self.control.void("rtmp.stop", STREAM_ID, accept["session_id"])
            return
        live = self.server.registry.get_or_create(accept["path"], accept["labels"])
        self.control.begin(LiveViewer(self, accept, live), self.loop.time())

    def _read(self, accept: PlayAccept, request: Request) -> None:
        recording = accept["recording"]
        if recording is None:
            self.refuse(GONE)
            self.control.void("rtmp.stop", STREAM_ID, accept["session_id"])
            return
        wanted, only_if = ("", "") if self._socket else (request.field("Range"), request.field("If-Range"))
        session = RecordingViewer(self, accept, recording, start_ms=self._start_ms, wanted=wanted, only_if=only_if)
        self.control.begin(session, self.loop.time())

    def respond(self, status: int, headers: tuple[Header, ...]) -> None:
        """Begin the response, whose body is to be written; if none is wanted, it ends."""
        assert self._request is not None  # noqa: S101 - as in `play`.
        if self._socket:
            self._answer(self._socket.begin(self._cors))
        else:
            self._answer(self._http.begin(status, (*headers, *self._cors)))
        if self._request.method == "HEAD":
            self.end("client_unpublish", "Only the head was asked for.")

    def _hear(self, data: bytes) -> None:
        """What a WebSocket's peer says: a close, pings, and what nobody asked for."""
        assert self._socket is not None  # noqa: S101
        reply, closed = self._socket.receive(data)
        if reply:
            self.outlet.write_control(reply)
        if closed is not None:
            self.end(*closed)

    # --- Output ---

    def _answer(self, data: bytes) -> None:
        self._has_answered = True
        self.outlet.write_control(data)

    def write_media(self, parts: list[bytes], size: int) -> None:
        framed = (self._socket or self._http).body(parts, size)
        self.outlet.write_media(framed, size)

    def half_close(self) -> None:
        """Say that nothing more will come, after all that was written; what still arrives is read and forgotten."""
        if not self.lost and not self.transport.is_closing() and self.transport.can_write_eof():
            with contextlib.suppress(OSError):  # The peer is gone already; connection_lost follows.
                self.transport.write_eof()

    # --- Ends ---

    def end_session(self, session: Session, reason: EndReason, description: str, now: float, *, tell: bool) -> None:
        """Stop one session and report it, once."""
        if self.sessions.pop(session.stream_id, None) is None:
            return
        self.server.sessions.pop(session.session_id, None)
        try:
            totals = session.stop(now)
        except Exception:  # Our own fault: the application must hear of the end all the same.
            with about(session_id=session.session_id, connection=self.control.id):
                logger.exception("%s: a session could not be closed in order", self.control.label)
            totals = NO_TOTALS
        self.control.session_ended(session, reason, description, totals)

    def stop_session(
        self, session: Session, reason: EndReason, description: str = "", *, keep_open: bool = False
    ) -> None:
        self.end(reason, description or DESCRIPTIONS[reason])

    def end(
        self, reason: DisconnectReason, description: str, *, tell: bool = True, linger_s: float | None = None
    ) -> None:
        """End the session, then close: after `linger_s` (the configured time if None), or at once for 0. `tell`: by
        the response's or the WebSocket's own end, if it is one that the peer can still be told.
        """
        if self.ending:
            return
        self.ending = Ending(reason, description)
        if self.lost:
            return
        now = self.loop.time()
        for session in list(self.sessions.values()):
            self.end_session(session, session_reason(reason), description, now, tell=tell)
        if tell:
            self.outlet.write_control(self._last_words(reason, description))
            self.half_close()
        linger = self.server.config.deadlines.linger_s if linger_s is None else linger_s
        self.close_at = now + linger
        if not linger:
            self.transport.close()

    def _last_words(self, reason: DisconnectReason, description: str) -> bytes:
        if self._has_answered:
            return self._socket.finish(reason, description) if self._socket else self._http.finish()
        if self._request is None:
            return b""
        self._has_answered = True
        return self._http.answer(http.STOPPING, self._cors)

    def broken(self, error: Exception) -> None:
        """Our own fault: this viewer is given up, the others go on."""
        with about(connection=self.control.id):
            logger.error("%s: given up", self.control.label, exc_info=error)
        self.transport.abort()

    # --- From the clock ---

    def sweep(self, deadlines: Deadlines, now: float) -> None:
        """Enforce the deadlines."""
        self.control.refuse_overdue(now)
        if self.lost:
            return
        if self.ending:
            closing(self, deadlines, now)
        elif self._request is None:
            self._await_head(deadlines, now)
        elif not write_stuck(self, deadlines, now):
            self._judge(deadlines, now)

    def _await_head(self, deadlines: Deadlines, now: float) -> None:
        if now - self.opened < deadlines.handshake_s:
            return
        if self._is_attempt:
            self.refuse(http.TOO_LATE, reason="idle_timeout")
        else:  # Browsers open connections for what they may ask for, and don't.
            self.end("idle_timeout", http.TOO_LATE.detail, linger_s=0)

    def _judge(self, deadlines: Deadlines, now: float) -> None:
        if self._allowance.is_passed(self._received_bytes, now):
            self.end("protocol_error", "It sends more than a viewer has to say.")
        elif any(isinstance(session, LiveViewer) and session.is_too_slow(now) for session in self.sessions.values()):
            self.end("too_slow", DESCRIPTIONS["too_slow"])
        elif any(
            isinstance(session, LiveViewer) and session.has_ended(now, deadlines.end_players_s)
            for session in self.sessions.values()
        ):
            self.end("completed", STREAM_ENDED)
        else:
            for session in list(self.sessions.values()):
                if isinstance(session, RecordingViewer):
                    session.look(now, deadlines.disk_s)
            if self._socket and self._has_answered and not self.ending:
                self._keep_alive(self._socket, deadlines, now)

    def _keep_alive(self, socket: WebSocketExchange, deadlines: Deadlines, now: float) -> None:
        """A stream without media is silent: the peer, and proxies on the way, must see that it is alive all the same,
        and the peer must show that it is. While media flow, whether they are taken tells.
        """
        passed = self.outlet.window.sent + self._received_bytes
        if passed != self._passed_bytes:
            self._passed_bytes, self._quiet_since, self._ping_sent = passed, now, None
        elif self._ping_sent is None:
            if now - self._quiet_since >= deadlines.ping_after_s:
                self._ping_sent = now
                self.outlet.write_control(socket.ping())
        elif now - self._ping_sent >= deadlines.ping_answer_s:
            self.end("idle_timeout", f"No byte within {deadlines.ping_answer_s:g} s of a ping.")
