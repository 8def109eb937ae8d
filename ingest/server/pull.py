"""A stream of another server that is fetched, and published here.

It is played there, as a player would; with its first media the application is asked whether it may be published. Until
that is decided nothing more is read. Then media go to a publisher's session as an encoder's do. When that ends, on
whichever side, the connection does, and both begin anew for as long as it is ordered."""

from collections.abc import Mapping
from typing import Any, Final

from ingest.contracts import EndReason, PullFigures, PullOrder, PushFailure
from ingest.rtmp import events
from ingest.rtmp.capabilities import CLIENT_CAPABILITIES
from ingest.rtmp.run_reader import Run
from ingest.rtmp.status import PLAY_RESET, PLAY_START, PLAY_STOP, PLAY_UNPUBLISH_NOTIFY
from ingest.server.asgi import Ending
from ingest.server.config import PullSettings
from ingest.server.connection_base import Server
from ingest.server.dial_rules import DialRules
from ingest.server.dialling import Failure
from ingest.server.outgoing import Patience
from ingest.server.publishing import PUBLISH_EVENTS, Publishing
from ingest.server.pull_connection import PullConnection
from ingest.server.remote import Remote, Slots

FLASH_VERSION: Final = "LNX 10,0,32,18 (rtmpweb pull)"
"""A player's, as servers tell those by the beginning."""

PROPERTIES: Final = {**CLIENT_CAPABILITIES.properties(), "flashVer": FLASH_VERSION, "fpad": False}

BEGUN: Final = frozenset({PLAY_RESET, PLAY_START})
ENDED: Final = frozenset({PLAY_UNPUBLISH_NOTIFY, PLAY_STOP, "NetConnection.Connect.Closed"})

NOT_YET: Final = "The server has nothing of it yet: it is waited for."
WITHDRAWN: Final = "It is not ordered any more."
TOO_MUCH: Final = Failure("protocol", "", "It sends too much at once.")
TOO_MANY: Final = Failure(
    "limit", "", "The node pulls as many streams as it may: raise RTMPWEB_MAX_PULLS, or add a node."
)
TOO_MANY_CONNECTIONS: Final = Failure(
    "limit", "", "The node has as many connections as it may: raise RTMPWEB_MAX_CONNECTIONS, or ..._PER_ADDRESS."
)
DRAINING: Final = Failure("limit", "", "The node drains: it takes no streams.")

HELD_BYTES: Final = 512
"""What an event that is held takes beside its payload."""

Held = events.AudioReceived | events.VideoReceived | events.DataReceived


class Pull(Remote):
    """Of one source: it is the sink of what plays until there is a session."""

    def __init__(self, server: Server, rules: DialRules, order: PullOrder, slots: Slots) -> None:
        settings: PullSettings = server.config.pull
        super().__init__(server, settings, rules, order["url"], order["name"], private_allowed=order["private_allowed"])
        self.order = order
        self._slots = slots
        self._held_most = settings.held_bytes
        self.label = f"Pull of {order['path']} from source {order['source']}"
        self.patience = Patience(settings.begin_s, settings.quiet_s, settings.answer_s)
        self._publisher: PullConnection | None = None
        self._refusal: Failure | None = None
        """Of this server: it may not be published here."""
        self._held: list[Held] = []
        self._held_bytes = 0
        self._is_playing = self._is_asking = False
        self.dial()

    properties: Mapping[str, Any] = PROPERTIES

    def may_dial(self) -> Failure | None:
        if self._server.draining:
            return DRAINING
        return None if self._slots.take(self) else TOO_MANY

    # --- The connection ---

    def created(self, stream_id: int) -> None:
        if self._connection is not None:
            self._stream_id = stream_id
            self._connection.play(stream_id, self.order["name"], self)

    def status(self, event: events.StatusReceived) -> None:
        connection = self._connection
        if connection is None:
            return
        if event.code in BEGUN and not self._is_playing:
            self._is_playing = True
            connection.begun()
        elif event.code in ENDED and self._session is not None:
            self._end_publishing("client_unpublish", "The stream has ended on the server from which it is pulled.")
            connection.lose(Failure("lost", event.code, event.description or "The stream has ended there."))

    def lost(self, failure: Failure) -> None:
        """What ended it here counts more than that its connection closed then."""
        publisher = self._publisher
        if self._refusal is not None:
            failure = self._refusal
        elif publisher is not None and publisher.ending is not None and publisher.ending.reason != "client_unpublish":
            kind: PushFailure = "lost" if publisher.ending.reason == "idle_timeout" else "refused"
            failure = Failure(kind, "", f"It was ended here: {publisher.ending.description}")
        self._end_publishing("tcp_reset", "The connection to the server from which it is pulled was lost.")
        super().lost(failure)

    def gone(self) -> None:
        self._publisher = self._refusal = None
        self._held, self._held_bytes = [], 0
        self._is_playing = self._is_asking = False

    def end(self) -> None:
        """Nobody wants it any more."""
        self._slots.free(self)
        self._end_publishing("client_unpublish", WITHDRAWN)
        self.hang_up()
        self.gone()

    def _end_publishing(self, reason: EndReason, description: str) -> None:
        publisher = self._publisher
        if publisher is not None:
            if publisher.ending is None:
                publisher.ending = Ending(reason, description)
            publisher.connection_lost(None)

    # --- Its first media ---

    @property
    def _session(self) -> Publishing | None:
        publisher = self._publisher
        found = publisher.sessions.get(publisher.stream_id) if publisher is not None else None
        return found if isinstance(found, Publishing) else None

    def audio(self, timestamp: int, payload: bytes) -> None:
        self._take(events.AudioReceived(self._stream_id, timestamp, payload))

    def video(self, timestamp: int, payload: bytes) -> None:
        self._take(events.VideoReceived(self._stream_id, timestamp, payload))

    def run(self, run: Run) -> None:
        for is_video, timestamp, start, size in run.messages:
            (self.video if is_video else self.audio)(timestamp, run.payload(start, size))

    def data(self, event: events.DataReceived) -> None:
        if event.stream_id != self._stream_id:
            return
        if self._session is not None and self._publisher is not None:
            PUBLISH_EVENTS[events.DataReceived](self._publisher, event, self._server.loop.time())
        else:
            self._take(event)

    def _take(self, event: Held) -> None:
        """Until there is a session. Data alone are no reason to ask for one."""
        if self._publisher is not None and self._publisher.ending is not None:
            return
        self._held.append(event)
        self._held_bytes += len(event.payload) + HELD_BYTES
        connection = self._connection
        if connection is None or self._is_asking:
            return
        if self._held_bytes > self._held_most:
            connection.lose(TOO_MUCH)
        elif not isinstance(event, events.DataReceived):
            self._is_asking = True
            connection.hold()
            self._server.loop.call_soon(self._ask)

    def _ask(self) -> None:
        connection, server = self._connection, self._server
        if connection is None or not self._is_asking or self._publisher is not None:
            return
        connection.begun()
        publisher = PullConnection(server, connection, self._stream_id, self.order, self)
        if not server.admit(publisher, publisher.peer[0]):
            connection.lose(DRAINING if server.draining else TOO_MANY_CONNECTIONS)
            return
        self._publisher = publisher
        publisher.control.connect_requested(None, server.loop.time())

    def accepted(self) -> None:
        connection, publisher, session, now = self._connection, self._publisher, self._session, self._server.loop.time()
        if connection is None or publisher is None or session is None:
            return
        held, self._held, self._held_bytes = self._held, [], 0
        for event in held:
            PUBLISH_EVENTS[type(event)](publisher, event, now)
        self.lives()
        connection.send_to(session)
        connection.go_on()

    def refused(self, code: str, description: str) -> None:
        self._refusal = Failure("refused", code, f"It may not be published here: {description}")

    # --- Once a second ---

    @property
    def figures(self) -> PullFigures:
        failure = self.failure
        waits = NOT_YET if self._is_playing and self.state == "connecting" else ""
        return PullFigures(
            source=self.order["source"],
            state=self.state,
            since=self.since,
            tries=self.tries,
            retry_at=self.retry_at,
            failure=failure.kind if failure is not None else None,
            code=failure.code if failure is not None else "",
            description=failure.description if failure is not None else waits,
        )
