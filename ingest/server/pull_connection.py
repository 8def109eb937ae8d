"""A connection that this server has made to fetch a stream (a pull), as its application sees it: as an encoder's.

The application is asked `connect` and then `publish`, with the credential that came with the order. What it accepts is
a publisher's session as any other: counted, recorded, limited, kicked."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Protocol

from ingest.contracts import ConnectEvent, EndReason, PublishAccept, PublishEvent, PullOrder
from ingest.credentials import scrub_text
from ingest.server.asgi import DESCRIPTIONS, FLASH_VER_LENGTH, Caller, DisconnectReason, Ending, Kind, Message, Request
from ingest.server.config import Deadlines
from ingest.server.connection_base import Answer, ApplicationSide, Handler, Server
from ingest.server.deadlines import closing, silent_publisher
from ingest.server.outgoing import Outgoing
from ingest.server.publisher_connection import PublisherConnection
from ingest.server.publishing import begin_publishing

REQUEST_ID: Final = 1


class PullUser(Protocol):
    def accepted(self) -> None:
        """It may be published: there is a session."""

    def refused(self, code: str, description: str) -> None:
        """It may not be. The connection ends."""


class PullConnection(PublisherConnection):
    """Its transport is the outgoing connection's, which alone hears of its end: `connection_lost` is to be called
    then."""

    __slots__ = ("_outgoing", "stream_id", "url")

    control: "PullControl"

    def __init__(self, server: Server, outgoing: Outgoing, stream_id: int, order: PullOrder, user: PullUser) -> None:
        """`stream_id`: the other server's, on which it plays."""
        super().__init__(server, "pull", lambda connection: connection.control)
        self._outgoing = outgoing
        self.stream_id = stream_id
        self._connect(outgoing.transport)
        self.outlet = outgoing.outlet
        self.url = f"{outgoing.to.address}/{scrub_text(outgoing.to.app.partition('?')[0])}"
        """Of the other server's application, without what may be secret."""
        self.flash_ver = f"Pull: {self.url}/{scrub_text(order['name'].partition('?')[0])}"[:FLASH_VER_LENGTH]
        self.round_trip_ms = None
        self.control = PullControl(self, order, user)

    @property
    def received_bytes(self) -> int:
        return self._outgoing.received_bytes

    def stop_session(self, session: Any, reason: EndReason, description: str = "", *, keep_open: bool = False) -> None:
        self.end(reason, description or DESCRIPTIONS[reason])

    def end(
        self, reason: DisconnectReason, description: str, *, notify: bool = True, linger_s: float | None = None
    ) -> None:
        """The other server, which has nothing to learn by it, is not waited for."""
        super().end(reason, description, notify=False, linger_s=0)
        self._outgoing.send_to(None)

    def _write_last(self, ending: Ending, *, notify: bool) -> None:
        """The close says all."""


class PullControl(ApplicationSide):
    protocol = "pull"
    scope_name = "scope type 'rtmp' and a pull"
    connection: PullConnection

    def __init__(self, connection: PullConnection, order: PullOrder, user: PullUser) -> None:
        super().__init__(connection)
        self._order = order
        self._user = user

    def connect_requested(self, request: None, now: float) -> None:
        """There are media to be published."""
        app, connection = self._order["path"].partition("/")[0], self.connection
        said = {"app": app, "tcUrl": connection.url, "flashVer": connection.flash_ver}
        self.caller = Caller(
            app=app,
            tc_url=connection.url,
            flash_ver=connection.flash_ver,
            connect={"object": said, "arguments": []},
        )
        self.open()
        message: ConnectEvent = {"type": "rtmp.connect", "credential": "", "login": None}
        self.ask("connect", message, now, request_id=REQUEST_ID)

    def sweep(self, deadlines: Deadlines, now: float) -> None:
        self.refuse_overdue(now)
        if self.connection.ending:
            closing(self.connection, deadlines, now)
        elif not self.connection.lost:
            silent_publisher(self.connection, deadlines, now)

    def refuse(self, request: Request, code: str, description: str) -> None:
        self._user.refused(code, description)
        self.connection.end("rejected", f"{code}: {description}")

    def _accept(self, _request: Request, _message: Message) -> None:
        message: PublishEvent = {
            "type": "rtmp.publish",
            "request_id": REQUEST_ID,
            "stream_id": self.connection.stream_id,
            "name": "",
            "credential": self._order["credential"],
            "credential_is_name": False,
            "query": {},
            "publish_type": "live",
        }
        self.ask("publish", message, self.connection.loop.time())

    def _publish_accept(self, request: Request, message: Message) -> None:
        accept: PublishAccept = message  # type: ignore[assignment]
        connection = self.connection
        begin_publishing(connection, connection.stream_id, request.credential, accept, connection.loop.time())
        self._user.accepted()

    def _challenge(self, request: Request, _message: Message) -> None:
        self.refuse(request, "NetConnection.Connect.Rejected", "What this server fetches can't log in here.")

    def _stream_stop(self, message: Message) -> None:
        session = self.connection.sessions.get(self.connection.stream_id)
        named = message.get("session_id")
        if session and named in (None, "", session.session_id):
            self.close(message)

    def _ignore(self, message: Message) -> None:
        """It would tell the other server, which has no ear for it."""

    answers: ClassVar[Mapping[str, tuple[Kind, Answer]]] = {
        "rtmp.accept": ("connect", _accept),
        "rtmp.reject": ("connect", ApplicationSide.reject),
        "rtmp.challenge": ("connect", _challenge),
        "rtmp.publish.accept": ("publish", _publish_accept),
        "rtmp.publish.reject": ("publish", ApplicationSide.reject),
    }
    handlers: ClassVar[Mapping[str, Handler]] = {
        "rtmp.close": ApplicationSide.close,
        "rtmp.stream.stop": _stream_stop,
        "rtmp.status.send": _ignore,
    }
