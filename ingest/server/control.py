"""The ASGI side of a connection: its scope, the requests that its application decides, and what that may send.

docs/rtmp-asgi.md describes each message. At most one request is pending, as the protocol pauses at it. A request that
is still pending when the peer vanishes is waited for, so that an accepted session is always reported as ended.
"""

import logging
import secrets
from collections.abc import Callable
from typing import Any

from ingest.contracts import (
    ConnectEvent,
    EndReason,
    MediaInfo,
    PlayAccept,
    PublishAccept,
    RtmpScope,
    Totals,
)
from ingest.logcontext import about
from ingest.rtmp import events
from ingest.server.driver import ASGI_VERSION, Driver, Message
from ingest.server.endings import DESCRIPTIONS, Ending
from ingest.server.playing import Playing
from ingest.server.ports import Link, Session
from ingest.server.publishing import Publishing
from ingest.server.questions import Kind, Request, play_event, publish_event
from ingest.server.scope import Caller, read_caller

logger = logging.getLogger(__name__)

RECONNECT_REQUEST = "NetConnection.Connect.ReconnectRequest"

NO_DECISION = "The server could not decide in time."

NO_TOTALS: Totals = {
    "bytes_in": 0,
    "bytes_out": 0,
    "video_frames": 0,
    "audio_frames": 0,
    "keyframes": 0,
    "dropped_frames": 0,
    "duration_ms": 0,
}


class Control:
    """A connection's application, and the translation between it and the protocol."""

    def __init__(self, connection: Link) -> None:
        self.connection = connection
        self.id = secrets.token_hex(4)
        """How log records name the connection."""
        self.driver: Driver | None = None
        self.request: Request | None = None
        self.had_session = False
        self._accepted = False
        """Whether `connect` succeeded."""
        self._caller = Caller()
        self._returned = False

    # --- From the protocol ---

    def connect_requested(self, event: events.ConnectRequested, now: float) -> None:
        if self.connection.ending:
            return
        self._caller = read_caller(event)
        self.connection.flash_ver = self._caller.flash_ver
        self._start()
        message: ConnectEvent = {"type": "rtmp.connect", "credential": self._caller.credential}
        self._ask("connect", event.request_id, 0, now, message)

    def publish_requested(self, event: events.PublishRequested, now: float) -> None:
        if self.connection.ending:
            return
        message = publish_event(event, self._caller)
        self._ask("publish", event.request_id, event.stream_id, now, message)

    def play_requested(self, event: events.PlayRequested, now: float) -> None:
        if self.connection.ending:
            return
        message = play_event(event, self._caller)
        self._ask("play", event.request_id, event.stream_id, now, message)

    def status_sent(self, event: events.StatusSent, _now: float) -> None:
        self._put(
            {
                "type": "rtmp.status",
                "stream_id": event.stream_id,
                "level": event.level,
                "code": event.code,
                "description": event.description,
            },
            droppable=True,
        )

    def description_changed(self, session: Session, metadata: dict[str, Any], media: MediaInfo) -> None:
        self._put(
            {"type": "rtmp.metadata", "stream_id": session.stream_id, "metadata": metadata, "media": media},
            droppable=True,
        )

    def session_ended(self, session: Session, reason: EndReason, description: str, totals: Totals) -> None:
        self._report_end(session.event, session.stream_id, session.session_id, reason, description, totals)

    def lost(self) -> None:
        """The transport is gone; the last event goes out as soon as nothing is pending."""
        if self.request is None:
            self._finish()
        if self._returned:
            self.connection.forget()

    def request_reconnect(self) -> None:
        """Ask the client to connect again, if it said that it understands that (Enhanced RTMP v2, capsEx bit 0).

        Where to, as `reconnect_url` says. But a key that the application's name carried stands in the former URL only:
        such a client is sent to the same one.
        """
        connection, caller = self.connection, self._caller
        if not self._accepted or connection.ending or not caller.reconnects:
            return
        base = connection.server.config.reconnect_url
        where = {"tcUrl": f"{base}/{caller.app}"} if base and not caller.credential else {}
        connection.rtmp.send_status(0, "status", RECONNECT_REQUEST, "The server is being drained.", **where)
        now = connection.loop.time()
        connection.collect_statuses(now)
        connection.process((), now)

    # --- From the clock ---

    def decision_overdue(self) -> None:
        """The application didn't answer: refused, as nothing may be admitted without it."""
        request, self.request = self.request, None
        if request is None:
            return
        with about(client=self.connection.peer[0], connection=self.id):
            logger.warning("%s: no decision on %s in time: refused", self.label, request.kind)
        if self.connection.lost:
            self._finish()
        elif self.connection.ending:
            pass
        elif request.kind == "connect":
            self._refuse_connect(request, "NetConnection.Connect.Failed", NO_DECISION)
        else:
            self._refuse_stream(request, "NetStream.Failed", NO_DECISION)

    # --- From the application ---

    def handle(self, message: Message) -> None:
        """One message from the application. Those that come too late to matter are let go by."""
        handler = FROM_APPLICATION.get(message["type"])
        if handler is None:
            raise ValueError(f"unknown message type {message['type']!r} for scope type 'rtmp'")
        handler(self, message)

    def _accept(self, _message: Message) -> None:
        request = self._answered("connect")
        if request:
            connection = self.connection
            self._accepted = True
            connection.rtmp.accept_connect(request.request_id)
            connection.after_decision(connection.loop.time())

    def _reject(self, message: Message) -> None:
        request = self._answered("connect")
        if request:
            self._refuse_connect(request, message["code"], message["description"])

    def _publish_accept(self, message: Message) -> None:
        accept: PublishAccept = message  # type: ignore[assignment]
        request = self._answered("publish", accept["request_id"], session="rtmp.unpublish", accept=accept)
        if request is None:
            return
        connection, server, now = self.connection, self.connection.server, self.connection.loop.time()
        live = server.registry.get_or_create(accept["path"], accept["labels"])
        former = server.sessions.get(live.publisher.session_id) if live.publisher else None
        if former:  # The application decides who publishes: the former one is displaced.
            former.connection.stop_session(former, "replaced", keep_open=former.connection is connection)
        session = Publishing(connection, request.stream_id, request.credential, accept, live)
        self._begin(session, now)
        name = self._public_name(accept["path"])
        connection.rtmp.accept_publish(request.request_id, f"{name} is now published.", public_name=name, sink=session)
        connection.after_decision(now)

    def _play_accept(self, message: Message) -> None:
        accept: PlayAccept = message  # type: ignore[assignment]
        request = self._answered("play", accept["request_id"], session="rtmp.stop", accept=accept)
        if request is None:
            return
        connection, now = self.connection, self.connection.loop.time()
        live = connection.server.registry.get_or_create(accept["path"], accept["labels"])
        name = self._public_name(accept["path"])
        connection.rtmp.accept_play(request.request_id, f"Started playing {name}.")
        connection.write_control()  # Before any media: clients drop what comes before Play.Start.
        self._begin(Playing(connection, request.stream_id, accept, live), now)
        connection.after_decision(now)

    def _publish_reject(self, message: Message) -> None:
        request = self._answered("publish", message["request_id"])
        if request:
            self._refuse_stream(request, message["code"], message["description"])

    def _play_reject(self, message: Message) -> None:
        request = self._answered("play", message["request_id"])
        if request:
            self._refuse_stream(request, message["code"], message["description"])

    def _close(self, message: Message) -> None:
        self.connection.end(message["reason"], DESCRIPTIONS[message["reason"]])

    def _stream_stop(self, message: Message) -> None:
        session = self.connection.sessions.get(message["stream_id"])
        if session:
            self.connection.stop_session(session, message["reason"])

    def _status_send(self, message: Message) -> None:
        connection = self.connection
        if connection.lost or connection.ending:
            return
        now = connection.loop.time()
        connection.rtmp.send_status(message["stream_id"], message["level"], message["code"], message["description"])
        connection.collect_statuses(now)
        connection.process((), now)

    # --- Inside ---

    @property
    def label(self) -> str:
        """How logs name the connection."""
        return f"rtmp {self.connection.peer[0]}:{self.connection.peer[1]}"

    def _start(self) -> Driver:
        connection, server, caller = self.connection, self.connection.server, self._caller
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

    def _ask(
        self,
        kind: Kind,
        request_id: int,
        stream_id: int,
        now: float,
        message: Any,
    ) -> None:
        if kind != "connect":
            self.connection.asked = True
        deadline = now + self.connection.server.config.deadlines.decision_s
        self.request = Request(kind, request_id, stream_id, message["credential"], deadline)
        self._put(message)

    def _answered(
        self, kind: str, request_id: int | None = None, *, session: str = "", accept: Any = None
    ) -> Request | None:
        """The request that this answers, if it still can be answered. A session accepted too late is reported ended."""
        request, connection = self.request, self.connection
        if request is None or request.kind != kind or request_id not in (None, request.request_id):
            if session and accept["session_id"] not in connection.server.sessions:
                self._void(session, 0, accept["session_id"])
            return None
        self.request = None
        if connection.ending is None:
            return request
        if session:
            self._void(session, request.stream_id, accept["session_id"])
        if connection.lost:
            self._finish()
        return None

    def _void(self, event: str, stream_id: int, session_id: str) -> None:
        """A session was accepted when it could no longer begin."""
        ending = self.connection.ending or Ending("idle_timeout", NO_DECISION)
        reason: EndReason = "kicked" if ending.reason == "rejected" else ending.reason
        self._report_end(event, stream_id, session_id, reason, ending.description, NO_TOTALS)

    def _begin(self, session: Session, now: float) -> None:
        connection = self.connection
        former = connection.sessions.get(session.stream_id)
        if former:
            connection.end_session(former, "client_unpublish", "Another request on its stream.", now, tell=False)
        connection.sessions[session.stream_id] = session
        connection.server.sessions[session.session_id] = session
        self.had_session = True
        session.start(now)

    def _refuse_connect(self, request: Request, code: str, description: str) -> None:
        connection = self.connection
        connection.rtmp.reject_connect(request.request_id, code, description)
        connection.collect_statuses(connection.loop.time())
        connection.end("rejected", f"{code}: {description}")
        connection.half_close()

    def _refuse_stream(self, request: Request, code: str, description: str) -> None:
        """The status, then the close: librtmp waits for ever without one. Other sessions of the connection go on."""
        connection, now = self.connection, self.connection.loop.time()
        refuse = connection.rtmp.reject_publish if request.kind == "publish" else connection.rtmp.reject_play
        refuse(request.request_id, code, description)
        if connection.sessions:
            connection.after_decision(now)
        else:
            connection.collect_statuses(now)
            connection.end("rejected", f"{code}: {description}")

    def _public_name(self, path: str) -> str:
        return path.removeprefix(f"{self._caller.app}/")

    def _report_end(
        self, event: str, stream_id: int, session_id: str, reason: EndReason, description: str, totals: Totals
    ) -> None:
        self._put(
            {
                "type": event,
                "stream_id": stream_id,
                "session_id": session_id,
                "reason": reason,
                "description": description,
                "totals": totals,
            }
        )

    def _put(self, message: Any, *, droppable: bool = False) -> None:
        if self.driver:
            self.driver.put(message, droppable=droppable)

    def _finish(self) -> None:
        """The last event; a connection that never got to `connect` has its scope made for it."""
        connection = self.connection
        ending = connection.ending
        if ending is None or (self.driver and self.driver.finishing):
            return
        level = logging.INFO if self.had_session else logging.DEBUG  # Anybody can connect, as often as they like.
        with about(client=connection.peer[0], connection=self.id):
            logger.log(level, "%s closed: %s: %s", self.label, ending.reason, ending.description)
        driver = self.driver or self._start()
        event = {"type": "rtmp.disconnect", "reason": ending.reason, "description": ending.description}
        driver.finish(event, connection.server.config.deadlines.application_s)

    def _application_ended(self, driver: Driver) -> None:
        """It returned. Before its last event that is a failure: nobody is left to decide, so the connection ends."""
        self._returned = True
        self.request = None
        if self.connection.lost:
            self._finish()
            self.connection.forget()
        else:
            self.connection.end("node_shutdown", "The application ended.")


FROM_APPLICATION: dict[str, Callable[[Control, Message], None]] = {
    "rtmp.accept": Control._accept,
    "rtmp.reject": Control._reject,
    "rtmp.publish.accept": Control._publish_accept,
    "rtmp.publish.reject": Control._publish_reject,
    "rtmp.play.accept": Control._play_accept,
    "rtmp.play.reject": Control._play_reject,
    "rtmp.close": Control._close,
    "rtmp.stream.stop": Control._stream_stop,
    "rtmp.status.send": Control._status_send,
}
