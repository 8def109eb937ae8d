"""The ASGI side of an RTMP connection: the requests that its application decides, and what that may send.

docs/rtmp-asgi.md describes each message. At most one request of a message stream is pending, as the protocol keeps what
follows for it.
"""

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import ClassVar, Final

from ingest.contracts import ConnectEvent, EndReason, PlayAccept, PublishAccept, Totals
from ingest.contracts.figures import NO_TOTALS
from ingest.credentials import scrub_text
from ingest.log_records import about
from ingest.rtmp import LocalProtocolError, events, status
from ingest.rtmp.messages.control import UserControl
from ingest.rtmp.states import StreamState
from ingest.rtmp.status import CONNECT_REJECTED, RECONNECT_REQUEST
from ingest.server.asgi import DESCRIPTIONS, Ending, Kind, Message, Request, Status, read_caller
from ingest.server.calls import CALL_EVENTS, CALLS, Calls
from ingest.server.config import Deadlines
from ingest.server.connection import Connection
from ingest.server.connection_base import Answer, ApplicationSide, EventHandler, Handler
from ingest.server.context import AnySession
from ingest.server.deadlines import sweep
from ingest.server.play_requests import PLAY_EVENTS, STOPPED, player_for
from ingest.server.player import Player, Switch
from ingest.server.playing import Playing
from ingest.server.publishing import PUBLISH_EVENTS, begin_publishing
from ingest.server.shared_objects import OBJECT_EVENTS, OBJECTS, SharedObjects
from ingest.server.vod.playback import Playback

logger = logging.getLogger(__name__)

MOST_REFUSALS: Final = 16
"""One after the other, with nothing played between them."""


class Control(ApplicationSide):
    __slots__ = ("_accepted", "_has_unknown_message", "calls", "objects")

    connection: Connection

    def __init__(self, connection: Connection, objects: SharedObjects) -> None:
        super().__init__(connection)
        self.objects = objects
        self.calls = Calls(connection, self.put)
        self._accepted = False
        self._has_unknown_message = False

    # --- From the protocol ---

    def connect_requested(self, event: events.ConnectRequested, now: float) -> None:
        if self.connection.ending:
            return
        self.caller = read_caller(event)
        self.connection.flash_ver = self.caller.flash_ver
        self.open()
        message: ConnectEvent = {
            "type": "rtmp.connect",
            "credential": self.caller.credential,
            "login": self.caller.login,
        }
        self.ask("connect", message, now, request_id=event.request_id)

    def status_sent(self, event: events.StatusSent, _now: float) -> None:
        self.put(
            {
                "type": "rtmp.status",
                "stream_id": event.stream_id,
                "level": event.level,
                "code": event.code,
                "description": scrub_text(event.description, *self.secrets),
            },
            droppable=True,
        )

    def not_understood(self, event: events.UnknownMessage, _now: float) -> None:
        """Noted once: a peer may send any number."""
        if self._has_unknown_message:
            return
        self._has_unknown_message = True
        level = logging.INFO if self._accepted else logging.DEBUG  # As for the end of a connection.
        with about(client=self.connection.peer[0], connection=self.id):
            logger.log(
                level,
                "%s: %d bytes of a message of type %d are not understood, and are ignored, as any further ones of this "
                "connection are. If something does not work with it, its maker may want to know.",
                self.label,
                len(event.payload),
                event.type_id,
            )

    def peer_ending(self) -> Ending:
        connection = self.connection
        if connection.rtmp.bytes_received == 0:
            return Ending("tcp_reset", "Closed without sending anything.")
        if connection.ready_since is None:
            return Ending("tcp_reset", "Closed during the handshake.")
        if self.driver is None:
            return Ending("tcp_reset", "Closed before connect.")
        if connection.refusals:
            return connection.refusals[-1]
        if self.had_session and all(session.is_complete for session in connection.sessions.values()):
            return Ending("client_unpublish", "The client ended its sessions and closed.")
        return super().peer_ending()

    def sweep(self, deadlines: Deadlines, now: float) -> None:
        sweep(self.connection, deadlines, now)

    def leave(self) -> None:
        self.objects.leave(self.connection)

    def lost(self) -> None:
        self.calls.lost()
        super().lost()

    def request_reconnect(self) -> None:
        """If it said that it understands that (Enhanced RTMP v2, capsEx bit 0).

        Where to, as `reconnect_url` says. But a key that the application's name carried stands in the former URL only:
        such a client is sent to the same one.
        """
        connection, caller = self.connection, self.caller
        if not self._accepted or connection.ending or not caller.reconnects:
            return
        base = connection.server.config.reconnect_url
        where = {"tcUrl": f"{base}/{caller.app}"} if base and not caller.credential else {}
        now = connection.loop.time()
        connection.send_status(0, Status("status", RECONNECT_REQUEST, "The server is being drained."), now, **where)
        connection.process((), now)

    # --- From the application ---

    def _accept(self, request: Request, message: Message) -> None:
        connection = self.connection
        self._accepted = True
        connection.rtmp.accept_connect(request.request_id)
        self.objects.admit(connection, message.get("shared_objects", "none"))
        connection.after_decision(connection.loop.time())

    def _challenge(self, request: Request, message: Message) -> None:
        self._refuse_connect(request, CONNECT_REJECTED, message["description"], log_text="The client is to log in.")

    def _publish_accept(self, request: Request, message: Message) -> None:
        accept: PublishAccept = message  # type: ignore[assignment]
        connection, now = self.connection, self.connection.loop.time()
        session = begin_publishing(connection, request.stream_id, request.credential, accept, now)
        if not session.secret:  # The public name.
            self.secrets.discard(request.credential)
        name = self._public_name(accept["path"])
        connection.rtmp.accept_publish(request.request_id, f"{name} is now published.", public_name=name, sink=session)
        connection.after_decision(now)

    def _play_accept(self, request: Request, message: Message) -> None:
        accept: PlayAccept = message  # type: ignore[assignment]
        connection, now = self.connection, self.connection.loop.time()
        former = connection.sessions.get(request.stream_id)
        player = player_for(connection, request, accept, former)
        if request.forbidden:
            self._refuse_play(request, status.PLAY_FAILED, DESCRIPTIONS["kicked"])
            self.session_ended(player, "kicked", DESCRIPTIONS["kicked"], NO_TOTALS)
            return
        if isinstance(player, Playing) and (why := player.unsupported()):
            self._refuse_play(request, status.PLAY_NO_SUPPORTED_TRACK, why)
            self.session_ended(player, "unsupported_codec", why, NO_TOTALS)
            return
        name = self._public_name(accept["path"])
        if request.play and request.play.transition and isinstance(former, Player):
            connection.rtmp.accept_switch(request.request_id, f"Switching to {name}.")
            Switch(former, player, name, now + connection.server.config.deadlines.switch_s).begin(now)
            connection.after_decision(now)
            return
        recorded = isinstance(player, Playback)
        connection.rtmp.accept_play(request.request_id, f"Started playing {name}.", recorded=recorded)
        connection.write_control()  # Before any media: clients drop what comes before Play.Start.
        self.begin(player, now)
        connection.after_decision(now)

    def session_ended(self, session: AnySession, reason: EndReason, description: str, totals: Totals) -> None:
        super().session_ended(session, reason, description, totals)
        for request_id, request in self.requests.items():
            switches = request.play and request.play.transition and request.stream_id == session.stream_id
            if switches and reason == "kicked":
                self.requests[request_id] = replace(request, forbidden=True)

    def send_end(self, session: AnySession, reason: EndReason, description: str, now: float) -> None:
        connection = self.connection
        status = session.status_of(reason)
        if status:
            connection.rtmp.send_status(session.stream_id, status.level, status.code, status.description or description)
        with suppress(LocalProtocolError):  # The client has asked for another on its stream already.
            connection.rtmp.stop_stream(session.stream_id)
        connection.collect_statuses(now)

    def begin(self, session: AnySession, now: float) -> None:
        self.connection.refusals.clear()
        super().begin(session, now)

    def _stream_stop(self, message: Message) -> None:
        connection, session_id = self.connection, message.get("session_id")
        sessions = connection.server.sessions
        session = sessions.get(session_id) if session_id else connection.sessions.get(message["stream_id"])
        if session and session.connection is connection:
            connection.stop_session(session, message["reason"])

    def _status_send(self, message: Message) -> None:
        connection = self.connection
        if connection.lost or connection.ending:
            return
        now = connection.loop.time()
        wanted = Status(message["level"], message["code"], message["description"])
        connection.send_status(message["stream_id"], wanted, now)
        connection.process((), now)

    # --- Inside ---

    def _refuse_connect(self, request: Request, code: str, description: str, *, log_text: str = "") -> None:
        """`log_text`: what logs have in place of a description that names a user."""
        connection = self.connection
        connection.rtmp.reject_connect(request.request_id, code, description)
        connection.collect_statuses(connection.loop.time())
        connection.end("rejected", log_text or f"{code}: {description}")
        connection.half_close()

    def refuse(self, request: Request, code: str, description: str) -> None:
        """The status, then the close: librtmp waits for ever without one. Other sessions of the connection go on, and
        may still begin."""
        if request.kind == "connect":
            self._refuse_connect(request, code, description)
            return
        connection, now = self.connection, self.connection.loop.time()
        if request.kind == "play":
            self._refuse_play(request, code, description)
            return
        connection.rtmp.reject_publish(request.request_id, code, description)
        if connection.sessions or self.requests:
            connection.after_decision(now)
        else:
            connection.collect_statuses(now)
            connection.end("rejected", f"{code}: {description}")

    def _refuse_play(self, request: Request, code: str, description: str) -> None:
        """An item of a playlist is passed over; what a play2 wanted leaves what plays.

        Else it was the only one, and the connection ends (see CHECKS of deadlines.py), as librtmp would wait for ever.
        Before that the client may ask for the next item, but not for any number of them.
        """
        connection, stream_id, now = self.connection, request.stream_id, self.connection.loop.time()
        rtmp = connection.rtmp
        rtmp.reject_play(request.request_id, code, description)
        stream = rtmp.streams.get(stream_id)
        is_item = stream is not None and stream.state is StreamState.PLAYING
        if is_item and stream_id not in connection.sessions and not rtmp.play_next_item(stream_id):
            rtmp.send_user_control(UserControl.STREAM_EOF, stream_id)
            rtmp.send_status(stream_id, *STOPPED)
        if not (is_item or connection.sessions):
            connection.refused_at = now
            connection.refusals.append(Ending("rejected", f"{code}: {description}"))
            if len(connection.refusals) == MOST_REFUSALS:
                connection.end(*connection.refusals[-1])
                return
        connection.after_decision(now)

    def _public_name(self, path: str) -> str:
        return path.removeprefix(f"{self.caller.app}/")

    answers: ClassVar[Mapping[str, tuple[Kind, Answer]]] = {
        "rtmp.accept": ("connect", _accept),
        "rtmp.reject": ("connect", ApplicationSide.reject),
        "rtmp.challenge": ("connect", _challenge),
        "rtmp.publish.accept": ("publish", _publish_accept),
        "rtmp.publish.reject": ("publish", ApplicationSide.reject),
        "rtmp.play.accept": ("play", _play_accept),
        "rtmp.play.reject": ("play", ApplicationSide.reject),
    }
    handlers: ClassVar[Mapping[str, Handler]] = {
        **CALLS,
        **OBJECTS,
        "rtmp.close": ApplicationSide.close,
        "rtmp.stream.stop": _stream_stop,
        "rtmp.status.send": _status_send,
    }
    event_handlers: ClassVar[Mapping[type, EventHandler]] = {
        events.HandshakeCompleted: Connection.handshake_completed,
        events.PingAnswered: Connection.ping_answered,
        events.ConnectRequested: lambda connection, event, now: connection.control.connect_requested(event, now),
        **PUBLISH_EVENTS,
        **PLAY_EVENTS,
        **CALL_EVENTS,
        **OBJECT_EVENTS,
        events.StatusSent: lambda connection, event, now: connection.control.status_sent(event, now),
        events.UnknownMessage: lambda connection, event, now: connection.control.not_understood(event, now),
    }
    """Events that are not here are answered by the protocol itself."""
