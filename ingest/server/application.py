"""The ASGI side of a connection of any kind: its scope, the requests that are pending, sessions that begin and end.

Those that are still pending when the peer vanishes are waited for, so that an accepted session is always reported as
ended.
"""

import logging
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from ingest.contracts import EndReason, PlayerSample, RtmpScope, Totals
from ingest.credentials import Secrets
from ingest.log_records import about
from ingest.rate_limit import TokenBucket
from ingest.rtmp import events
from ingest.server.asgi import (
    ASGI_VERSION,
    DESCRIPTIONS,
    LEFT,
    Caller,
    Driver,
    Ending,
    Kind,
    Message,
    Request,
    Status,
    session_reason,
)

if TYPE_CHECKING:
    from ingest.server.connection_base import BaseConnection

logger = logging.getLogger(__name__)

Scheme = Literal["rtmp", "rtmps", "http", "ws"]

NO_DECISION: Final = "The server could not decide in time."

NO_TOTALS: Final[Totals] = {
    "bytes_in": 0,
    "bytes_out": 0,
    "video_frames": 0,
    "audio_frames": 0,
    "keyframes": 0,
    "dropped_frames": 0,
    "duration_ms": 0,
}


class Session:
    """One publishing or playing on a message stream, from its accept to its end."""

    __slots__ = ("connection", "is_complete", "path", "session_id", "stream_id")

    event = "rtmp.stop"
    """The type of the message that tells the application of its end."""

    def __init__(self, connection: "BaseConnection", stream_id: int, session_id: str, path: str) -> None:
        self.connection = connection
        self.stream_id = stream_id
        self.session_id = session_id
        self.path = path
        self.is_complete = False
        """All of it was sent, and the client told so. It may still want to go back."""

    def start(self, now: float) -> None:
        raise NotImplementedError

    def before_stop(self, reason: EndReason, description: str, now: float) -> None:
        """`stop` follows."""

    def stop(self, now: float) -> Totals:
        raise NotImplementedError

    def resume(self) -> None:
        """The peer takes media again."""

    def sample(self) -> PlayerSample | None:
        """For the node's tick, of players that no live stream tells of."""
        return None

    def _sample(self, sent_bytes: int) -> PlayerSample:
        """Of one for which nothing is dropped."""
        return PlayerSample(
            session_id=self.session_id, path=self.path, out_bytes=sent_bytes, dropped_frames=0, queued_ms=0
        )

    def status_of(self, reason: EndReason) -> Status | None:
        """What its client is told when the server ends it for this reason."""
        return None


Handler = Callable[[Any, Message], None]
Answer = Callable[[Any, Request, Message], None]


class ApplicationSide:
    """A connection's application. What it sends, and what a refusal looks like, is for who inherits this."""

    __slots__ = ("_returned", "caller", "connection", "driver", "had_session", "id", "requests", "secrets", "throttle")

    protocol = "rtmp"
    """How logs name the connection."""
    scope_name = "scope type 'rtmp'"
    answers: ClassVar[Mapping[str, tuple[Kind, Answer]]]
    """By type of message: which kind of request it answers, and what comes of that."""
    handlers: ClassVar[Mapping[str, Handler]]

    def __init__(self, connection: "BaseConnection") -> None:
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
            asked, act = self.answers[kind]
            if request := self._answered(asked, message):
                act(self, request, message)
        elif kind in self.handlers:
            self.handlers[kind](self, message)
        else:
            raise ValueError(f"unknown message type {kind!r} for {self.scope_name}")

    def refuse(self, request: Request, code: str, description: str) -> None:
        raise NotImplementedError

    def reject(self, request: Request, message: Message) -> None:
        self.refuse(request, message["code"], message["description"])

    def close(self, message: Message) -> None:
        self.connection.end(message["reason"], DESCRIPTIONS[message["reason"]])

    def request_reconnect(self) -> None:
        """Ask the client to connect again, if it understands that."""

    def send_end(self, session: Session, reason: EndReason, description: str, now: float) -> None:
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

    def lost(self) -> None:
        """The transport is gone; the last event goes out as soon as nothing is pending."""
        if not self.requests:
            self.finish()
        if self._returned:
            self.connection.server.forget(self.connection)

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
            self.connection.server.forget(self.connection)
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

    def begin(self, session: Session, now: float) -> None:
        connection = self.connection
        connection.sessions[session.stream_id] = session
        connection.server.sessions[session.session_id] = session
        self.had_session = True
        session.start(now)

    def session_ended(self, session: Session, reason: EndReason, description: str, totals: Totals) -> None:
        """A client that was sent all, and leaves then, has completed it."""
        if session.is_complete and reason in LEFT:
            reason, description = "completed", DESCRIPTIONS["completed"]
        self._report_end(session.event, session.stream_id, session.session_id, reason, description, totals)

    @contextmanager
    def in_any_case(self, session: Session) -> Iterator[None]:
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
