"""One connection of the media listener: a request's head, the application's answer, then FLV until one side ends it.

It serves one request. It ends once, for one reason, as an RTMP connection does; whoever had no request that the
application was asked about is nobody that it hears of, but for those that broke HTTP or came from a foreign page.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from ingest import addresses
from ingest.contracts import EndReason
from ingest.rate_limit import TokenBucket
from ingest.rtmp.flow import SendingWindow
from ingest.server.asgi import DESCRIPTIONS, DisconnectReason, Ending
from ingest.server.config import Deadlines
from ingest.server.connection_base import ApplicationSide, BaseConnection, Server
from ingest.server.context import AnySession
from ingest.server.deadlines import closing, write_stuck
from ingest.server.media import http
from ingest.server.media.http import (
    Answer,
    Header,
    HttpExchange,
    Origins,
    Request,
    UnreadableRequest,
    WebSocketExchange,
)
from ingest.server.output import Outlet

BURST_S: Final = 5.0
"""Over which the rate of what a viewer may send is a mean."""


class MediaConnection(BaseConnection):
    def __init__(self, server: Server, control_of: Callable[[Any], ApplicationSide]) -> None:
        super().__init__(server, "http", control_of)
        self.is_proxy = False
        config = server.config
        self._http = HttpExchange(config.media_head_bytes)
        self._origins = Origins(config.media_origins)
        self._cors: tuple[Header, ...] = ()
        self._request: Request | None = None
        self._socket: WebSocketExchange | None = None
        self._has_answered = False
        self.is_attempt = False
        """Whether operators are told of it although the application was asked nothing."""
        self._received_bytes = 0
        rate = config.viewer_bytes_per_s
        self._limit = TokenBucket(rate, rate * BURST_S, self.opened)
        """For what comes behind the head."""
        self._passed_bytes = 0
        """In both directions, when it was looked at."""
        self._quiet_since = self.opened
        """Since when that stands still."""
        self._ping_sent: float | None = None

    # --- The transport ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connect(transport)
        self.is_proxy = addresses.is_in(self.peer[0], self.server.config.trusted_proxies)
        self.outlet = Outlet(self.transport, SendingWindow(), self.loop.time, joins=False)
        self.control = self._control_of(self)
        if self._is_admitted(is_proxy=self.is_proxy):
            self._bound_writing()

    def buffer_updated(self, nbytes: int) -> None:
        if self.ending:
            return  # Read and forgotten, so that the close that follows is no reset.
        data = bytes(self.server.read_buffer[:nbytes])
        if self._request is None:
            self._read_head(data)
            return
        self._received_bytes += nbytes
        if self._socket and self._has_answered:
            self._receive(data)

    # --- The request ---

    def _read_head(self, data: bytes) -> None:
        try:
            request = self._http.receive(data)
        except UnreadableRequest as error:
            self.refuse_unreadable(error.answer)
            return
        if request is None:
            self.is_attempt = True  # Until the rest of it comes.
            return
        self.is_attempt = False
        self._request = request
        if self.is_proxy and not self._is_for_client(request):
            self.refuse(http.TOO_MANY)
            return
        origin = request.field("Origin")
        if request.method not in http.METHODS:
            self.refuse(http.WRONG_METHOD)
        elif not self._origins.allows(origin):
            self.is_attempt = True
            self.refuse(http.FOREIGN_PAGE)
        else:
            self._cors = self._origins.headers(origin)
            self.control.connect_requested(request, self.loop.time())

    def _is_for_client(self, request: Request) -> bool:
        """Takes the client's address for its proxy's. False: that has as many connections as it may."""
        proxy, trusted = self.peer[0], self.server.config.trusted_proxies
        client = addresses.client_of(proxy, request.fields("X-Forwarded-For"), trusted)
        if client != proxy:
            if not self.server.connection_limits.move(proxy, client):
                return False
            self.peer = (client, 0)
        return True

    def upgrade(self, request: Request) -> None:
        """It becomes a WebSocket. Raises UnusableUpgrade."""
        self._socket = WebSocketExchange(request.head)
        self.scheme = "ws"

    def refuse_unreadable(self, answer: Answer) -> None:
        """What came is no request, or none that makes sense."""
        self.is_attempt = True
        self.refuse(answer, reason="protocol_error")

    def refuse(self, answer: Answer, description: str = "", *, reason: DisconnectReason = "rejected") -> None:
        """The only response, a small one. `description`: for the operator."""
        if self.ending or self._has_answered:
            return
        self._answer(self._http.answer(answer, self._cors))
        self.end(reason, description or answer.detail)

    def respond(self, status: int, headers: tuple[Header, ...]) -> None:
        """Begin the response, whose body is to be written; if none is wanted, it ends."""
        assert self._request is not None  # noqa: S101 - it was asked for.
        if self._socket:
            self._answer(self._socket.begin(self._cors))
        else:
            self._answer(self._http.begin(status, (*headers, *self._cors)))
        if self._request.method == "HEAD":
            self.end("client_unpublish", "Only the head was asked for.")

    def _receive(self, data: bytes) -> None:
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

    # --- Ends ---

    def stop_session(
        self, session: AnySession, reason: EndReason, description: str = "", *, keep_open: bool = False
    ) -> None:
        self.end(reason, description or DESCRIPTIONS[reason])

    def _write_last(self, ending: Ending, *, notify: bool) -> None:
        """The response's or the WebSocket's own end, if it is one that the peer can still be told."""
        if notify:
            self.outlet.write_control(self._last_words(*ending))
            self.half_close()

    def _last_words(self, reason: DisconnectReason, description: str) -> bytes:
        if self._has_answered:
            return self._socket.finish(reason, description) if self._socket else self._http.finish()
        if self._request is None:
            return b""
        self._has_answered = True
        return self._http.answer(http.STOPPING, self._cors)

    # --- From the clock ---

    def sweep(self, deadlines: Deadlines, now: float) -> None:
        if self.lost:
            return
        if self.ending:
            closing(self, deadlines, now)
        elif self._request is None:
            self._await_head(deadlines, now)
        else:
            at_leisure = any(session.reads_as_it_plays for session in self.sessions.values())
            write_stuck(self, deadlines, now, deadlines.unread_s if at_leisure else None)
            self._check_deadlines(deadlines, now)

    def _await_head(self, deadlines: Deadlines, now: float) -> None:
        if now - self.opened < deadlines.handshake_s:
            return
        if self.is_attempt:
            self.refuse(http.TOO_LATE, reason="idle_timeout")
        else:  # Browsers open connections for what they may ask for, and don't.
            self.end("idle_timeout", http.TOO_LATE.detail, linger_s=0)

    def _check_deadlines(self, deadlines: Deadlines, now: float) -> None:
        if self.ending:
            return
        if self._limit.is_passed(self._received_bytes, now):
            self.end("protocol_error", "It sends more than a viewer has to say.")
            return
        for session in list(self.sessions.values()):
            session.check_deadlines(now)
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
