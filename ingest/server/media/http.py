"""One request and its response as HTTP/1.1 has them (RFC 9112), by h11.

A connection serves one request: each response says `Connection: close`. So a stream that ends is told from one that
broke off by its last chunk, and what a peer sends after its request is of no account.
"""

from collections.abc import Iterable
from email.utils import formatdate
from http import HTTPStatus
from typing import Final

import h11

from ingest.server.media.answers import TOO_LONG, UNREADABLE, Answer, Header

JSON: Final = ("Content-Type", "application/json")
ALWAYS: Final = (
    ("Connection", "close"),
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
)


class UnreadableRequest(Exception):  # noqa: N818 - a finding, not an error of ours.
    """What came is no request, or too long. Its text is not told: h11 quotes what it can't read, tokens and all."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.detail)
        self.answer = answer


class Request:
    """What a request's head says."""

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
        """Whether it asks for a WebSocket."""
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
        """A whole response."""
        body = answer.body
        kind = (JSON,) if body else ()
        length = () if answer.status == HTTPStatus.NO_CONTENT else (("Content-Length", str(len(body))),)
        head = self.begin(answer.status, (*kind, *length, *answer.headers, *headers))
        # HEAD's response has the length of a body that does not follow.
        content = b"" if self._is_head else body
        return head + (self._h11.send(h11.Data(data=content)) or b"") + self.finish()

    def begin(self, status: int, headers: Iterable[Header]) -> bytes:
        """A response's head. Without a Content-Length among them its body comes in chunks, as far as the peer knows
        those; to HEAD nothing follows.
        """
        fields = (("Date", formatdate(usegmt=True)), *ALWAYS, *headers)
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
