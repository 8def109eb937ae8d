"""A stream in the binary messages of a WebSocket (RFC 6455), by wsproto; what all share is not copied into them."""

import struct
from collections.abc import Iterable
from typing import Final

import h11
from wsproto import ConnectionType, WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import AcceptConnection, CloseConnection, Ping
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from ingest.server.endings import DisconnectReason
from ingest.server.media.answers import Header

BINARY: Final = 0x82
"""The last frame of a binary message (section 5.2). A server's frames are not masked."""
_medium: Final = struct.Struct(">BBH")
_long: Final = struct.Struct(">BBQ")

CLOSE_CODES: Final[dict[DisconnectReason, int]] = {
    "client_unpublish": 1000,
    "kicked": 4403,
    "key_revoked": 4403,
    "elsewhere": 4404,
    "protocol_error": 1002,
    "node_shutdown": 1001,
    "completed": 1000,
    "too_slow": 4408,
    "idle_timeout": 4408,
}
"""Section 7.4; those from 4000 on are our own, after HTTP's statuses."""
OTHERWISE: Final = 1012
"""The service restarts: try again."""

CLOSED: Final[tuple[DisconnectReason, str]] = ("client_unpublish", "The viewer closed the WebSocket.")

REASON_BYTES: Final = 123
"""Of a close frame's text."""


class UnusableUpgrade(Exception):  # noqa: N818 - an answer, not an error.
    """A request that asks for a WebSocket in a way that nobody can give it."""


def frame_header(size: int) -> bytes:
    """Of a message in one frame."""
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
        """The answer that makes it a WebSocket."""
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
                is_said = self._ws.state is ConnectionState.REMOTE_CLOSING
                answers += self._ws.send(event.response())
                return bytes(answers), CLOSED if is_said else ("protocol_error", f"WebSocket: {event.reason}")
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
        return self._ws.send(CloseConnection(CLOSE_CODES.get(reason, OTHERWISE), text))
