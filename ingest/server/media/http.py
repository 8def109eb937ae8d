"""One request and its response, as HTTP/1.1 has them (RFC 9112, by h11) or as a WebSocket (RFC 6455, by wsproto).

Small answers are JSON that says what is wrong with a request, and what a page of another origin may know (CORS). A
stream in a WebSocket's binary messages: what all viewers share is not copied into them.

A connection serves one request: each response says `Connection: close`. So a stream that ends is told from one that
broke off by its last chunk, and what a peer sends after its request is of no account."""

import json
import struct
from collections.abc import Iterable, Set
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from typing import Final

import h11
from wsproto import ConnectionType, WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import AcceptConnection, CloseConnection, Ping
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from ingest.server.asgi import DisconnectReason, close_code

Header = tuple[str, str]

PREFLIGHT_S: Final = 600
"""How long a browser may go by a preflight's answer, in seconds."""
RETRY_S: Final = 5
"""After how many seconds to try again what failed for a reason that passes."""

METHODS: Final = ("GET", "HEAD", "OPTIONS")
_known: Final = ", ".join(METHODS)


@dataclass(frozen=True, slots=True)
class Answer:
    status: HTTPStatus
    detail: str = ""
    """For a person; empty: the response has no body."""
    headers: tuple[Header, ...] = ()

    @property
    def body(self) -> bytes:
        return json.dumps({"detail": self.detail}).encode() + b"\n" if self.detail else b""


NOTHING_HERE: Final = Answer(
    HTTPStatus.NOT_FOUND,
    "There is nothing here. Live streams are at /live/APPLICATION/STREAM.flv, recordings at /recordings/...",
)
UNREADABLE: Final = Answer(HTTPStatus.BAD_REQUEST, "The request can't be read.")
WRONG_METHOD: Final = Answer(HTTPStatus.METHOD_NOT_ALLOWED, f"Only {_known} are known.", (("Allow", _known),))
TOO_LONG: Final = Answer(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "The request's head is too long.")
UNUSABLE_UPGRADE: Final = Answer(
    HTTPStatus.BAD_REQUEST,
    "This is no WebSocket of version 13 that could be opened.",
    (("Sec-WebSocket-Version", "13"),),
)
FOREIGN_PAGE: Final = Answer(
    HTTPStatus.FORBIDDEN, "Pages of this origin may not play from here: the server's RTMPWEB_MEDIA_ORIGINS lacks it."
)
WRONG_START: Final = Answer(HTTPStatus.BAD_REQUEST, "start is to be a time of the recording, in seconds.")
TOO_LATE: Final = Answer(HTTPStatus.REQUEST_TIMEOUT, "The request did not come in time.")
TOO_MANY: Final = Answer(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "There are as many connections from this address as there may be.",
    (("Retry-After", str(RETRY_S)),),
)
STOPPING: Final = Answer(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "The server can't answer this now: try another one, or this one in a moment.",
    (("Retry-After", str(RETRY_S)),),
)

STATUSES: Final = {
    "NetConnection.Connect.InvalidApp": HTTPStatus.NOT_FOUND,
    "NetConnection.Connect.Failed": HTTPStatus.SERVICE_UNAVAILABLE,
    "NetStream.Play.StreamNotFound": HTTPStatus.NOT_FOUND,
    "NetStream.Failed": HTTPStatus.SERVICE_UNAVAILABLE,
}
"""For the code of the application's refusal; for all others 403."""


def refusal(code: str, description: str, *, passes: bool = False) -> Answer:
    """`passes`: the same request may be accepted in a moment."""
    status = HTTPStatus.SERVICE_UNAVAILABLE if passes else STATUSES.get(code, HTTPStatus.FORBIDDEN)
    again = (("Retry-After", str(RETRY_S)),) if status == HTTPStatus.SERVICE_UNAVAILABLE else ()
    return Answer(status, description, again)


class Origins:
    def __init__(self, allowed: Set[str]) -> None:
        self._allowed = allowed

    def allows(self, origin: str) -> bool:
        """`origin`: of the request's field; "" without one, which is no page of another origin."""
        return not origin or "*" in self._allowed or origin.lower() in self._allowed

    def headers(self, origin: str) -> tuple[Header, ...]:
        """For a response to a page of an origin that is allowed."""
        vary = () if "*" in self._allowed else (("Vary", "Origin"),)
        if not origin or not self.allows(origin):
            return vary
        shown = "*" if "*" in self._allowed else origin
        exposed = ("Access-Control-Expose-Headers", "Accept-Ranges, Content-Length, Content-Range, Retry-After")
        return (("Access-Control-Allow-Origin", shown), exposed, *vary)


PREFLIGHT: Final = Answer(
    HTTPStatus.NO_CONTENT,
    headers=(
        ("Access-Control-Allow-Methods", _known),
        ("Access-Control-Allow-Headers", "Range"),
        ("Access-Control-Max-Age", str(PREFLIGHT_S)),
    ),
)

JSON: Final = ("Content-Type", "application/json")
WITHOUT_BODY: Final = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
ALWAYS: Final = (
    ("Connection", "close"),
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
)
"""But where a response has its own."""


class UnreadableRequest(Exception):  # noqa: N818 - a finding, not an error of ours.
    """What came is no request, or too long. Its text is not told: h11 quotes what it can't read, tokens and all."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.detail)
        self.answer = answer


class Request:
    def __init__(self, head: h11.Request) -> None:
        self.head = head
        self.method = head.method.decode("ascii")

    def field(self, name: str) -> str:
        """A header field's value, the first one's; "" without one."""
        return next(iter(self.fields(name)), "")

    def fields(self, name: str) -> list[str]:
        """The values of all of that name, in their order."""
        wanted = name.lower().encode()
        return [value.decode("latin-1").strip() for key, value in self.head.headers if key == wanted]

    @property
    def upgrades(self) -> bool:
        return self.field("Upgrade").lower() == "websocket"


class HttpExchange:
    """Bytes in, the request out; then the response's bytes."""

    def __init__(self, head_bytes: int) -> None:
        self._h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=head_bytes)
        self._is_head = False
        self._is_chunked = False

    def receive(self, data: bytes) -> Request | None:
        """The request, once its head is there. Raises UnreadableRequest."""
        self._h11.receive_data(data)
        try:
            event = self._h11.next_event()
        except h11.RemoteProtocolError as error:
            raise UnreadableRequest(TOO_LONG if error.error_status_hint == TOO_LONG.status else UNREADABLE) from None
        if not isinstance(event, h11.Request):
            return None
        self._is_head = event.method == b"HEAD"
        return Request(event)

    def answer(self, answer: Answer, headers: Iterable[Header] = ()) -> bytes:
        body = answer.body
        kind = (JSON,) if body else ()
        length = () if answer.status in WITHOUT_BODY else (("Content-Length", str(len(body))),)
        head = self.begin(answer.status, (*kind, *length, *answer.headers, *headers))
        # HEAD's response has the length of a body that does not follow.
        content = b"" if self._is_head else body
        return head + (self._h11.send(h11.Data(data=content)) or b"") + self.finish()

    def begin(self, status: int, headers: Iterable[Header]) -> bytes:
        """A response's head. Without a Content-Length among them its body comes in chunks, as far as the peer knows
        those; to HEAD nothing follows.
        """
        own = tuple(headers)
        named = {name for name, _ in own}
        fields = (("Date", formatdate(usegmt=True)), *(each for each in ALWAYS if each[0] not in named), *own)
        response = h11.Response(status_code=status, headers=[(name.encode(), value.encode()) for name, value in fields])
        head = self._h11.send(response) or b""
        self._is_chunked = b"transfer-encoding: chunked" in head.lower()
        return head

    def body(self, parts: list[bytes], size: int) -> list[bytes]:
        """A piece of the body, to be written gathered. `size`: all parts together, more than 0."""
        if self._is_chunked:  # By hand, as all that is live goes this way, and h11 would take half as much again.
            return [b"%x\r\n" % size, *parts, b"\r\n"]
        passed = (self._h11.send_with_data_passthrough(h11.Data(data=part)) for part in parts)
        return [piece for pieces in passed for piece in pieces or ()]

    def finish(self) -> bytes:
        """The body's end, if it is still to come. Without it the peer knows that something is missing."""
        if self._h11.our_state is not h11.SEND_BODY:
            return b""
        return self._h11.send(h11.EndOfMessage()) or b""


BINARY: Final = 0x82
"""The last frame of a binary message (section 5.2). A server's frames are not masked."""
_medium: Final = struct.Struct(">BBH")
_long: Final = struct.Struct(">BBQ")

CLOSED: Final[tuple[DisconnectReason, str]] = ("client_unpublish", "The viewer closed the WebSocket.")

REASON_BYTES: Final = 123
"""Of a close frame's text."""


class UnusableUpgrade(Exception):  # noqa: N818 - an answer, not an error.
    """A request that asks for a WebSocket in a way that nobody can give it."""


def frame_header(size: int) -> bytes:
    if size < 126:
        return bytes((BINARY, size))
    if size < 1 << 16:
        return _medium.pack(BINARY, 126, size)
    return _long.pack(BINARY, 127, size)


class WebSocketExchange:
    """A request that was read as HTTP's, and the connection that becomes of it."""

    def __init__(self, head: h11.Request) -> None:
        """Raises UnusableUpgrade."""
        self._ws = WSConnection(ConnectionType.SERVER)
        try:
            self._ws.initiate_upgrade_connection(list(head.headers), head.target)
        except (RemoteProtocolError, LocalProtocolError, h11.ProtocolError, UnicodeError) as error:
            raise UnusableUpgrade(str(error)) from error
        self._is_open = False

    def begin(self, headers: Iterable[Header]) -> bytes:
        extra = [(name.encode(), value.encode()) for name, value in headers]
        answer = self._ws.send(AcceptConnection(extra_headers=extra))
        self._is_open = True
        return answer

    def receive(self, data: bytes) -> tuple[bytes, tuple[DisconnectReason, str] | None]:
        """What to answer, and why it ends if it does. A viewer has nothing to say: its messages are let go by."""
        self._ws.receive_data(data)
        answers = bytearray()
        for event in self._ws.events():
            if isinstance(event, Ping):
                answers += self._ws.send(event.response())
            elif isinstance(event, CloseConnection):
                self._is_open = False
                by_viewer = self._ws.state is ConnectionState.REMOTE_CLOSING
                answers += self._ws.send(event.response())
                return bytes(answers), CLOSED if by_viewer else ("protocol_error", f"WebSocket: {event.reason}")
        return bytes(answers), None

    def body(self, parts: list[bytes], size: int) -> list[bytes]:
        """A message, to be written gathered. `size`: all parts together."""
        return [frame_header(size), *parts]

    def ping(self) -> bytes:
        return self._ws.send(Ping())

    def finish(self, reason: DisconnectReason, description: str) -> bytes:
        """A close frame that says why, unless the peer closed first."""
        if not self._is_open:
            return b""
        self._is_open = False
        text = description.encode()[:REASON_BYTES].decode(errors="ignore")
        return self._ws.send(CloseConnection(close_code(reason), text))
