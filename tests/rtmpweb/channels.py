"""Connections of HTTP without a server: Daphne's part is played, and time is a test's own."""

import asyncio
from concurrent.futures import Future
from typing import Any

from twisted.internet import testing
from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.python import failure

from rtmpweb.embedded.connections import Factory, HttpLimits

# Twisted does not declare them whole.
Failure: Any = failure.Failure
StringTransport: Any = testing.StringTransport

GET = b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n"


class Server:
    """What Daphne's server is to its connections."""

    proxy_forwarded_address_header = None
    root_path = ""
    server_name = "rtmpweb"
    request_buffer_size = HttpLimits().body_bytes + 1

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.bodies: list[asyncio.Queue[dict[str, Any]]] = []
        self.connections: dict[Any, dict[str, Any]] = {}

    def protocol_connected(self, protocol: Any) -> None:
        """There is one more."""

    def protocol_disconnected(self, protocol: Any) -> None:
        """There is one less."""

    def log_action(self, *about: Any) -> None:
        """Daphne's own access log."""

    def create_application(self, protocol: Any, scope: Any) -> "asyncio.Queue[dict[str, Any]]":
        self.requests.append(protocol)
        self.connections[protocol] = {"application_instance": Future()}
        self.bodies.append(asyncio.Queue())
        return self.bodies[-1]

    def end(self, protocol: Any) -> None:
        """The application that answers this one has ended."""
        self.connections[protocol]["application_instance"].set_result(None)


class Http:
    """The factory, its clock, and its clients."""

    def __init__(self, limits: HttpLimits) -> None:
        self.clock = Clock()
        self.server = Server()
        self.factory = Factory(self.server, limits, self.clock)

    def connect(self, host: str = "192.0.2.7") -> "Client | None":
        """None: it was closed at once."""
        address = IPv4Address("TCP", host, 50_000)
        channel = self.factory.buildProtocol(address)
        return None if channel is None else Client(channel, address)

    def client(self) -> "Client":
        made = self.connect()
        assert made
        return made

    def answer(self, content: bytes = b"ok") -> None:
        """The latest request's, and the end of what made it."""
        request = self.server.requests[-1]
        answer(request, content)
        self.server.end(request)


class Client:
    def __init__(self, channel: Any, address: IPv4Address) -> None:
        self.channel = channel
        self.transport = StringTransport(peerAddress=address)
        channel.makeConnection(self.transport)

    def send(self, *data: bytes) -> None:
        for each in data:
            self.channel.dataReceived(each)

    @property
    def status(self) -> int:
        """Of the latest answer; 0: there is none."""
        head: bytes = self.transport.value().rpartition(b"HTTP/1.1 ")[2]
        return int(head[:3]) if head else 0

    @property
    def closed(self) -> bool:
        return bool(self.transport.disconnecting)

    def leave(self) -> None:
        self.channel.connectionLost(Failure(ConnectionDone()))


def answer(request: Any, content: bytes) -> None:
    fields = [(b"content-length", str(len(content)).encode())]
    request.handle_reply({"type": "http.response.start", "status": 200, "headers": fields})
    request.handle_reply({"type": "http.response.body", "body": content})


def post(length: int) -> bytes:
    return b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % length
