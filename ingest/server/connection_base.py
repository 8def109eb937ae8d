"""A connection of any kind, RTMP's or a media request's, with its sessions and its side to the application.

It ends once, for one reason, and its sessions with it: `end` (the server's wish) or `connection_lost` (the peer's)
stops them, and when the transport is gone the application gets `rtmp.disconnect`, its last event. Requests that are
still pending then are waited for, so that an accepted session is always reported as ended.

Nothing here knows what its kinds do: `Control` and `MediaControl` are made by the listener.
"""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Final, Literal, cast

from ingest.contracts import EndReason, RtmpScope, Totals
from ingest.contracts.figures import NO_TOTALS
from ingest.credentials import Secrets
from ingest.log_records import about
from ingest.rate_limit import TokenBucket
from ingest.rtmp import events
from ingest.server.asgi import (
    ASGI_VERSION,
    DESCRIPTIONS,
    LEFT,
    Caller,
    DisconnectReason,
    Driver,
    Ending,
    Kind,
    Message,
    Request,
    session_reason,
)
from ingest.server.config import Deadlines
from ingest.server.context import AnySession, ServerContext
from ingest.server.output import Outlet
from ingest.server.sockets import address, tune

logger = logging.getLogger("ingest.server.connection")

Scheme = Literal["rtmp", "rtmps", "http", "ws", "hls", "pull"]

NO_DECISION: Final = "The server could not decide in time."


Server = ServerContext["BaseConnection"]


class BaseConnection(asyncio.BufferedProtocol):
    __slots__ = (
        *("_control_of", "close_at", "control", "ending", "idle_since", "local", "loop", "lost", "opened", "outlet"),
        *("peer", "scheme", "server", "sessions", "transport"),
    )

    transport: asyncio.Transport
    outlet: Outlet
    control: "ApplicationSide"

    def __init__(self, server: Server, scheme: Scheme, control_of: Callable[[Any], "ApplicationSide"]) -> None:
        self.server = server
        self._control_of = control_of
        self.scheme: Scheme = scheme
        self.loop = server.loop
        self.peer: tuple[str, int] = ("", 0)
        """Who connects: from a trusted proxy, once its request is read, the client behind it, whose port is 0."""
        self.local: tuple[str, int] = ("", 0)
        self.sessions: dict[int, AnySession] = {}
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
        if not self.server.admit(self, self.peer[0], is_proxy=is_proxy):
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
            self._end_sessions(self.ending, notify=False)
        finally:
            self.control.lost()

    # --- Ends ---

    def _end_sessions(self, ending: Ending, *, notify: bool) -> None:
        now = self.loop.time()
        for session in list(self.sessions.values()):
            self.end_session(session, session_reason(ending.reason), ending.description, now, notify=notify)

    def end_session(self, session: AnySession, reason: EndReason, description: str, at: float, *, notify: bool) -> None:
        """Stop one session and report it, once. `notify`: let the client know, as far as its protocol has words."""
        if self.sessions.get(session.stream_id) is not session:
            return
        del self.sessions[session.stream_id]
        self.server.sessions.pop(session.session_id, None)
        totals, control = NO_TOTALS, self.control
        with control.in_any_case(session):
            session.before_stop(reason, description, at)
        with control.in_any_case(session):
            totals = session.stop(at)
        with control.in_any_case(session):
            if notify:
                control.send_end(session, reason, description, at)
        if not self.sessions:
            self.idle_since = at
        control.session_ended(session, reason, description, totals)

    def stop_session(
        self, session: AnySession, reason: EndReason, description: str = "", *, keep_open: bool = False
    ) -> None:
        """The server ends a session. The connection follows when it was the only one, as many clients don't listen."""
        raise NotImplementedError

    def end(
        self, reason: DisconnectReason, description: str, *, notify: bool = True, linger_s: float | None = None
    ) -> None:
        """End all sessions, then close: after `linger_s` (the configured time if None), or at once for 0."""
        if self.ending:
            return
        self.ending = Ending(reason, description)
        if self.lost:
            return
        now = self.loop.time()
        self._end_sessions(self.ending, notify=notify)
        self._write_last(self.ending, notify=notify)
        linger = self.server.config.deadlines.linger_s if linger_s is None else linger_s
        self.close_at = now + linger
        if not linger:
            self.transport.close()

    def _write_last(self, ending: Ending, *, notify: bool) -> None:
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

    def forget(self) -> None:
        """The application has returned after the connection's end: nothing is left of it."""
        self.server.forget(self, self.peer[0])


Handler = Callable[[Any, Message], None]
Answer = Callable[[Any, Request, Message], None]
EventHandler = Callable[[Any, Any, float], None]


class ApplicationSide:
    """A connection's application. What it sends, and what a refusal looks like, is for who inherits this."""

    __slots__ = ("_returned", "caller", "connection", "driver", "had_session", "id", "requests", "secrets", "throttle")

    protocol = "rtmp"
    """How logs name the connection."""
    scope_name = "scope type 'rtmp'"
    answers: ClassVar[Mapping[str, tuple[Kind, Answer]]]
    """By type of message: which kind of request it answers, and what comes of that."""
    handlers: ClassVar[Mapping[str, Handler]]
    event_handlers: ClassVar[Mapping[type, EventHandler]] = {}
    """By type of event of the protocol: what comes of it (the connection, the event, now)."""

    def __init__(self, connection: BaseConnection) -> None:
        self.connection = connection
        self.id = secrets.token_hex(4)
        """How log records name the connection."""
        self.driver: Driver | None = None
        self.requests: dict[int, Request] = {}
        """That are pending, by id: `connect`, or one for each message stream."""
        self.had_session = False
        self.caller = Caller()
        self.secrets = Secrets()
        config = connection.server.config
        self.throttle = TokenBucket(config.questions_per_s, config.questions_at_once)
        """Of what the application is asked but `connect`."""
        self._returned = False

    def handle(self, message: Message) -> None:
        """One message from the application. Answers that come too late to matter are let go by."""
        kind = message["type"]
        if kind in self.answers:
            asked, answer = self.answers[kind]
            if request := self._answered(asked, message):
                answer(self, request, message)
        elif kind in self.handlers:
            self.handlers[kind](self, message)
        else:
            raise ValueError(f"unknown message type {kind!r} for {self.scope_name}")

    def connect_requested(self, request: Any, now: float) -> None:
        """What the peer connects for, in its protocol's form."""
        raise NotImplementedError

    def sweep(self, deadlines: Deadlines, now: float) -> None:
        """Each `sweep_s`: what time alone brings about."""
        raise NotImplementedError

    def leave(self) -> None:
        """The connection ends, and its sessions have."""

    def refuse(self, request: Request, code: str, description: str) -> None:
        raise NotImplementedError

    def reject(self, request: Request, message: Message) -> None:
        self.refuse(request, message["code"], message["description"])

    def close(self, message: Message) -> None:
        self.connection.end(message["reason"], DESCRIPTIONS[message["reason"]])

    def request_reconnect(self) -> None:
        """Ask the client to connect again, if it understands that."""

    def send_end(self, session: AnySession, reason: EndReason, description: str, now: float) -> None:
        """The client's status for a session that the server ends, if there is one for it."""

    def peer_ending(self) -> Ending:
        return Ending("tcp_reset", DESCRIPTIONS["tcp_reset"])

    @property
    def label(self) -> str:
        """How logs name the connection."""
        return f"{self.protocol} {self.connection.peer[0]}:{self.connection.peer[1]}"

    # --- The application's life ---

    def open(self) -> Driver:
        connection, server, caller = self.connection, self.connection.server, self.caller
        scope: RtmpScope = {
            "type": "rtmp",
            "asgi": ASGI_VERSION,
            "scheme": connection.scheme,
            "client": connection.peer,
            "server": connection.local,
            "app": caller.app,
            "tc_url": caller.tc_url,
            "query": caller.query,
            "flash_ver": caller.flash_ver,
            "connect": caller.connect,
            "capabilities": caller.capabilities,
            "node": server.config.node,
        }
        with about(client=connection.peer[0], connection=self.id):
            self.driver = Driver(
                server.application,
                scope,
                handle=self.handle,
                ended=self._application_ended,
                inbox_events=server.config.inbox_events,
                label=self.label,
            )
        return self.driver

    def put(self, message: Mapping[str, Any], *, droppable: bool = False) -> None:
        if self.driver:
            self.driver.put(message, droppable=droppable)

    def try_put(self, event: Any) -> bool:
        """Hand the application an event that comes in its own time. False: it has had its last one."""
        driver = self.driver
        return driver is not None and not (driver.finishing or self._returned) and driver.put(event)

    def lost(self) -> None:
        """The transport is gone; the last event goes out as soon as nothing is pending."""
        if not self.requests:
            self.finish()
        if self._returned:
            self.connection.forget()

    def finish(self) -> None:
        """The last event; a connection that never got to `connect` has its scope made for it."""
        connection = self.connection
        ending = connection.ending
        if ending is None or (self.driver and self.driver.finishing):
            return
        level = logging.INFO if self.had_session else logging.DEBUG  # Anybody can connect, as often as they like.
        with about(client=connection.peer[0], connection=self.id):
            logger.log(level, "%s closed: %s: %s", self.label, ending.reason, ending.description)
        driver = self.driver or self.open()
        event = {"type": "rtmp.disconnect", "reason": ending.reason, "description": ending.description}
        driver.finish(event, connection.server.config.deadlines.application_s)

    def _application_ended(self, driver: Driver) -> None:
        """It returned. Before its last event that is a failure: nobody is left to decide, so the connection ends."""
        self._returned = True
        self.requests.clear()
        if self.connection.lost:
            self.finish()
            self.connection.forget()
        else:
            self.connection.end("node_shutdown", "The application ended.")

    # --- Requests ---

    def ask(
        self, kind: Kind, message: Any, now: float, *, request_id: int = 0, play: events.PlayRequested | None = None
    ) -> None:
        """At once, or when its turn has come. `request_id`: of `connect`, whose message has none."""
        self.secrets.add(message["credential"])
        request_id, stream_id = message.get("request_id", request_id), message.get("stream_id", 0)
        wait_s = self.throttle.wait_s(now) if kind != "connect" else 0.0
        deadline = now + wait_s + self.connection.server.config.deadlines.decision_s
        self.requests[request_id] = Request(kind, request_id, stream_id, message["credential"], deadline, play)
        if wait_s:
            self.connection.loop.call_later(wait_s, self._ask_now, request_id, message)
        else:
            self.put(message)

    def _ask_now(self, request_id: int, message: Any) -> None:
        if request_id not in self.requests:
            return
        if self.connection.ending is None:
            self.put(message)
            return
        self._settle(request_id)  # Nobody waits for the answer any more.

    def _settle(self, request_id: int) -> None:
        del self.requests[request_id]
        if self.connection.lost and not self.requests:
            self.finish()

    def refuse_overdue(self, now: float) -> None:
        """What the application didn't answer in time, as nothing may be admitted without it."""
        for request in list(self.requests.values()):
            if now >= request.deadline and request.request_id in self.requests:
                self._refuse_overdue(request)

    def _refuse_overdue(self, request: Request) -> None:
        self._settle(request.request_id)
        with about(client=self.connection.peer[0], connection=self.id):
            logger.warning("%s: no decision on %s in time: refused", self.label, request.kind)
        if not (self.connection.lost or self.connection.ending):
            code = "NetConnection.Connect.Failed" if request.kind == "connect" else "NetStream.Failed"
            self.refuse(request, code, NO_DECISION)

    def _answered(self, kind: Kind, message: Message) -> Request | None:
        """The request that this answers, if it still can be answered. A session accepted too late is reported ended."""
        connection, request_id = self.connection, None if kind == "connect" else message["request_id"]
        event = SESSION_ENDS.get(message["type"])
        found = (each for each in self.requests.values() if each.kind == kind and request_id in (None, each.request_id))
        request = next(found, None)
        if request is None:
            if event and message["session_id"] not in connection.server.sessions:
                self.void(event, 0, message["session_id"])
            return None
        if connection.ending is None:
            del self.requests[request.request_id]
            return request
        if event:
            self.void(event, request.stream_id, message["session_id"])
        self._settle(request.request_id)
        return None

    # --- Sessions ---

    def begin(self, session: AnySession, now: float) -> None:
        connection = self.connection
        connection.sessions[session.stream_id] = session
        connection.server.sessions[session.session_id] = session
        self.had_session = True
        session.start(now)

    def session_ended(self, session: AnySession, reason: EndReason, description: str, totals: Totals) -> None:
        """A client that was sent all, and leaves then, has completed it."""
        if session.is_complete and reason in LEFT:
            reason, description = "completed", DESCRIPTIONS["completed"]
        self._report_end(session.event, session.stream_id, session.session_id, reason, description, totals)

    @contextlib.contextmanager
    def in_any_case(self, session: AnySession) -> Iterator[None]:
        """An error in this is our own fault: the application must hear of the session's end all the same."""
        try:
            yield
        except Exception:
            with about(session_id=session.session_id, connection=self.id):
                logger.exception("%s: a session could not be closed in order", self.label)

    def void(self, event: str, stream_id: int, session_id: str) -> None:
        """A session was accepted when it could no longer begin."""
        ending = self.connection.ending or Ending("idle_timeout", NO_DECISION)
        self._report_end(event, stream_id, session_id, session_reason(ending.reason), ending.description, NO_TOTALS)

    def _report_end(
        self, event: str, stream_id: int, session_id: str, reason: EndReason, description: str, totals: Totals
    ) -> None:
        self.put(
            {
                "type": event,
                "stream_id": stream_id,
                "session_id": session_id,
                "reason": reason,
                "description": description,
                "totals": totals,
            }
        )


SESSION_ENDS: Final = {"rtmp.publish.accept": "rtmp.unpublish", "rtmp.play.accept": "rtmp.stop"}
