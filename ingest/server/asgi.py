"""What passes the ASGI border of a connection: who asks (connect), what for (publish, play), and why what began ends.

Secrets are taken out of the names and set apart. Of each end, what the client is told when the server brings it about.
`Driver` runs one application instance: a bounded inbox on one side, a table of message handlers on the other.

The application is called with (scope, receive, send) once for each connection, and once for the node. `send` acts at
once and never waits; a message that it doesn't know, or that lacks a field, is the application's error, raised to
it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from sys import intern
from typing import Any, Final, Literal, NamedTuple

from ingest import credentials
from ingest.contracts import ClientCapabilities, EndReason, LoginAnswer, PlayEvent, PublishEvent
from ingest.rtmp import events
from ingest.rtmp.capabilities import CapsEx
from ingest.rtmp.messages.commands import text

logger = logging.getLogger(__name__)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
ASGIApplication = Callable[[Any, Receive, Send], Awaitable[None]]

ASGI_VERSION = {"version": "3.0", "spec_version": "1.0"}


@dataclass(eq=False, repr=False, slots=True)
class Driver:
    _application: ASGIApplication
    _scope: Mapping[str, Any]
    handle: Callable[[Message], None]
    """Gets what the application sends."""
    ended: Callable[["Driver"], None]
    """Called once: it returned, failed or was cancelled."""
    inbox_events: int
    label: str
    _inbox: list[Mapping[str, Any]] = field(default_factory=list)
    """Nearly always empty: a deque is ten times as large then."""
    _waiting: asyncio.Future[None] | None = None
    """The application's, for the next event."""
    _timer: asyncio.TimerHandle | None = None
    finishing: bool = False
    dropped: int = 0
    task: asyncio.Task[None] = field(init=False)

    def __post_init__(self) -> None:
        self.task = asyncio.get_running_loop().create_task(self._run())

    def put(self, event: Mapping[str, Any], *, droppable: bool = False) -> bool:
        """Hand an event over. One that is droppable is left out while the application is behind: False."""
        if droppable and len(self._inbox) >= self.inbox_events:
            self.dropped += 1
            return False
        self._inbox.append(event)
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
        return True

    def take_unread(self) -> list[Mapping[str, Any]]:
        unread = list(self._inbox)
        self._inbox.clear()
        return unread

    def finish(self, event: Mapping[str, Any], timeout_s: float) -> None:
        """Hand the last event over; the application then has `timeout_s` to return before it is cancelled."""
        if self.finishing:
            return
        self.put(event)
        self.finishing = True
        if not self.task.done():
            self._timer = asyncio.get_running_loop().call_later(timeout_s, self._overdue)

    def _overdue(self) -> None:
        logger.warning("%s: the application did not return after its last event and is cancelled", self.label)
        self.task.cancel()

    async def _run(self) -> None:
        try:
            await self._application(self._scope, self._receive, self._send)
        except asyncio.CancelledError:
            pass
        except Exception:
            logger.exception("%s: the application failed", self.label)
        finally:
            if self._timer:
                self._timer.cancel()
            self.ended(self)

    async def _receive(self) -> Mapping[str, Any]:
        while not self._inbox:
            self._waiting = self.task.get_loop().create_future()
            await self._waiting
        self._waiting = None
        return self._inbox.pop(0)

    async def _send(self, message: Message) -> None:
        self.handle(message)


DisconnectReason = EndReason | Literal["rejected"]


class Ending(NamedTuple):
    reason: DisconnectReason
    description: str


class Status(NamedTuple):
    level: str
    code: str
    description: str
    """Empty: what is said of the session's end."""


RESTARTS: Final = 1012
"""The service restarts: try again."""


class End(NamedTuple):
    description: str
    publisher: Status | None = None
    player: Status | None = None
    close_code: int = RESTARTS
    """Of a viewer's WebSocket (RFC 6455, section 7.4); those from 4000 on are our own, after HTTP's statuses."""


SHUTDOWN: Final = "The server is stopping."
OVER_LIMIT: Final = Status("error", "NetStream.Failed", "The client went over a limit of the server.")
UNPUBLISHED: Final = Status("status", "NetStream.Play.UnpublishNotify", "Playing was stopped.")
TOO_SLOW: Final = "The player took less than it was sent, for too long."
NOT_IN_TIME: Final = "NetConnection.Connect.IdleTimeOut"

# FFmpeg stops at level 'error', librtmp at some codes. OBS reads nothing after Publish.Start: for it the close counts.
# UnpublishNotify lets players by FFmpeg and librtmp end as at the end of a stream.
ENDS: Final[dict[EndReason, End]] = {
    "client_unpublish": End("The client ended it.", close_code=1000),
    "completed": End("All that was to be played has been sent.", close_code=1000),
    "tcp_reset": End("The client closed or lost the connection."),
    "idle_timeout": End(
        "Nothing arrived in time.",
        Status("error", NOT_IN_TIME, "No media arrived in time."),
        Status("error", NOT_IN_TIME, "Nothing was heard from the player."),
        4408,
    ),
    "kicked": End(
        "Stopped by an operator.",
        Status("error", "NetStream.Publish.Rejected", "Stopped by an operator."),
        Status("error", "NetStream.Play.Failed", "Stopped by an operator."),
        4403,
    ),
    "key_revoked": End(
        "The key is no longer valid.",
        Status("error", "NetStream.Publish.Denied", "The stream key is no longer valid."),
        Status("error", "NetStream.Play.Failed", "Playing is no longer allowed."),
        4403,
    ),
    "replaced": End(
        "Another encoder took the stream over.",
        Status("error", "NetStream.Publish.BadName", "Another encoder took the stream over."),
        UNPUBLISHED,
    ),
    "elsewhere": End(
        "The stream is published on another node.",
        player=Status("error", "NetStream.Play.StreamNotFound", ""),
        close_code=4404,
    ),
    "protocol_error": End("The client broke the protocol.", OVER_LIMIT, OVER_LIMIT, 1002),
    "too_slow": End(TOO_SLOW, player=Status("error", "NetStream.Play.Failed", TOO_SLOW), close_code=4408),
    "test_over": End(
        "The test has gone on for as long as one may.",
        Status("error", "NetStream.Publish.Rejected", "The test has ended."),
    ),
    "over_limit": End(
        "The bitrate stayed over the stream key's limit.",
        Status("error", "NetStream.Publish.Rejected", "The bitrate is over the stream key's limit."),
    ),
    "unreadable": End("The recording can't be played."),
    "unsupported_codec": End("The player does not take the stream's codec."),
    "node_shutdown": End(
        "The server stopped.",
        Status("error", "NetConnection.Connect.AppShutdown", SHUTDOWN),
        Status("status", "NetStream.Play.UnpublishNotify", SHUTDOWN),
        1001,
    ),
    "node_lost": End("The server was lost."),
    "lease_lost": End(
        "The server lost its claim to the stream.",
        Status("error", "NetStream.Publish.Failed", "The server lost its claim to the stream."),
        UNPUBLISHED,
    ),
}
DESCRIPTIONS: Final = {reason: end.description for reason, end in ENDS.items()}


def close_code(reason: DisconnectReason) -> int:
    return RESTARTS if reason == "rejected" else ENDS[reason].close_code


STREAM_ENDED: Final = "The stream has ended: its encoder left and has not come back."

LEFT: Final[tuple[EndReason, ...]] = ("client_unpublish", "tcp_reset")


def session_reason(reason: DisconnectReason) -> EndReason:
    """A session that ends because another request on its connection was refused was ended by the server's rule."""
    return "kicked" if reason == "rejected" else reason


URLS = ("tcUrl", "swfUrl", "pageUrl")

FLASH_VER_LENGTH = 255


@dataclass(frozen=True, slots=True)
class Caller:
    """Who called, as `connect` tells it. Empty for a connection that never got so far."""

    app: str = ""
    tc_url: str = ""
    flash_ver: str = ""
    query: dict[str, str] = field(default_factory=dict)
    connect: dict[str, Any] = field(default_factory=dict)
    capabilities: ClientCapabilities = field(default_factory=ClientCapabilities)
    credential: str = field(default="", repr=False)
    login: LoginAnswer | None = field(default=None, repr=False)

    @property
    def reconnects(self) -> bool:
        return bool(self.capabilities.get("capsEx", 0) & CapsEx.RECONNECT)


def read_caller(event: events.ConnectRequested) -> Caller:
    """Everything but `credential` and `login` is masked."""
    target = credentials.split_app(event.app)
    secret = target.credential
    raw_app = event.app.partition("?")[0].strip("/")
    properties = event.properties
    urls = {
        name: credentials.scrub_url(properties[name], raw_app, secret)
        for name in URLS
        if isinstance(properties.get(name), str)
    }
    capabilities = {name: value for name, value in event.capabilities.properties().items() if name not in URLS}
    others = {name: value for name, value in properties.items() if name not in urls and name != "app"}
    command = credentials.scrub(others, secret) | urls | {"app": target.name}
    # With texts that all connections share which say the same: a thousand players of one kind do.
    command = {intern(name): intern(value) if type(value) is str else value for name, value in command.items()}
    return Caller(
        app=command["app"],
        tc_url=command.get("tcUrl", ""),
        flash_ver=text(command.get("flashVer"))[:FLASH_VER_LENGTH],
        query=target.query,
        connect={"object": command, "arguments": credentials.scrub(event.arguments, secret)},
        capabilities=credentials.scrub(capabilities, secret),
        credential=secret,
        login=target.login,
    )


Kind = Literal["connect", "publish", "play"]


@dataclass(frozen=True, slots=True)
class Request:
    """What the application was asked and has not answered yet."""

    kind: Kind
    request_id: int
    stream_id: int
    credential: str = field(repr=False)
    deadline: float
    play: events.PlayRequested | None = None
    """What exactly is to be played."""
    forbidden: bool = False
    """What it was to take the place of (play2) was kicked meanwhile."""


PUBLISH_TYPES: dict[str, Literal["live", "record", "append"]] = {"live": "live", "record": "record", "append": "append"}
"""Anything else is taken as live."""


def publish_event(event: events.PublishRequested, caller: Caller) -> PublishEvent:
    presented = credentials.split_publish(event.name, caller.credential)
    return {
        "type": "rtmp.publish",
        "request_id": event.request_id,
        "stream_id": event.stream_id,
        "name": presented.name,
        "credential": presented.credential,
        "credential_is_name": presented.credential_is_name,
        "query": presented.query,
        "publish_type": PUBLISH_TYPES.get(event.publish_type, "live"),
    }


def play_event(event: events.PlayRequested, credential: str) -> PlayEvent:
    """`credential`: what the caller has presented before."""
    presented = credentials.split_play(event.name, credential)
    return {
        "type": "rtmp.play",
        "request_id": event.request_id,
        "stream_id": event.stream_id,
        "name": presented.name,
        "credential": presented.credential,
        "query": presented.query,
        "start": event.start,
        "duration": event.duration,
        "reset": event.reset,
        "transition": event.transition,
    }
