"""What a connection of HTTP may take: time, by a clock of the test's own, room for bodies, and answers not taken."""

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, closing, suppress
from ipaddress import ip_network
from typing import Any

import pytest
from twisted.internet import epollreactor, testing
from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.python import failure

from ingest.rtmp.limits import KIB, MIB
from rtmpweb.embedded.connections import PIECE_BYTES, Factory, HttpLimits

# Twisted does not declare them whole.
EPollReactor: Any = epollreactor.EPollReactor
Failure: Any = failure.Failure
StringTransport: Any = testing.StringTransport

LIMITS = HttpLimits()
GET = b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n"


class Server:
    """Daphne's server, as its connections see it."""

    proxy_forwarded_address_header = None
    root_path = ""
    server_name = "rtmpweb"
    request_buffer_size = LIMITS.body_bytes + 1

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.bodies: list[asyncio.Queue[dict[str, Any]]] = []
        self.connections: dict[Any, dict[str, Any]] = {}
        self.protocol_connected = self.protocol_disconnected = self.log_action = lambda *_: None

    def create_application(self, protocol: Any, scope: Any) -> "asyncio.Queue[dict[str, Any]]":
        self.requests.append(protocol)
        self.connections[protocol] = {"application_instance": Future()}
        self.bodies.append(asyncio.Queue())
        return self.bodies[-1]

    def end(self, protocol: Any) -> None:
        """End the application that answers this request."""
        self.connections[protocol]["application_instance"].set_result(None)


class Http:
    """The factory, its clock, and its clients."""

    def __init__(self, limits: HttpLimits) -> None:
        self.clock = Clock()
        self.server = Server()
        self.factory = Factory(self.server, limits, self.clock)

    def connect(self, host: str = "192.0.2.7") -> "Client | None":
        """Return None if the connection is closed at once."""
        address = IPv4Address("TCP", host, 50_000)
        channel = self.factory.buildProtocol(address)
        return None if channel is None else Client(channel, address)

    def client(self) -> "Client":
        made = self.connect()
        assert made
        return made

    def answer(self) -> None:
        """Answer the latest request, and end its application."""
        request = self.server.requests[-1]
        answer(request, b"ok")
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
        """Status of the latest answer, or 0 if there is none."""
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


@pytest.fixture
def http() -> Http:
    return Http(LIMITS)


CHUNKED = b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(size: int) -> bytes:
    return b"%x\r\n%s\r\n" % (size, bytes(size))


def asking(http: Http) -> Client:
    client = http.client()
    client.send(GET)
    return client


# --- Time ---


@pytest.mark.parametrize("begin", [b"", b"GET /x HTTP/1.1\r\n"], ids=["nothing", "a request's line"])
def test_slow_request_head_times_out(http: Http, begin: bytes) -> None:
    client = http.client()
    client.send(begin)
    passed_s = 0.0
    while not (client.closed or client.status):
        client.send(b"a" if begin else b"")
        http.clock.advance(0.5)
        passed_s += 0.5
        assert passed_s <= LIMITS.head_s
    assert passed_s == LIMITS.head_s
    assert client.status == (408 if begin else 0)
    http.clock.advance(LIMITS.linger_s)
    assert client.closed


@pytest.mark.parametrize(("head", "piece"), [(post(1000), b"a"), (CHUNKED, b"1\r\na\r\n")], ids=["length", "chunked"])
def test_slow_request_body_times_out(http: Http, head: bytes, piece: bytes) -> None:
    client = http.client()
    http.clock.advance(LIMITS.head_s - 1)
    client.send(head)
    for _ in range(int(LIMITS.body_s) - 1):
        client.send(piece)
        http.clock.advance(1)
    assert client.status == 0
    http.clock.advance(1)
    assert client.status == 408
    http.clock.advance(LIMITS.linger_s)
    assert client.closed
    assert not http.server.requests


def test_a_request_that_came_waits_for_its_answer_as_long_as_it_takes(http: Http) -> None:
    client = asking(http)
    http.clock.advance(3600)
    http.answer()
    assert client.status == 200
    assert not client.closed


def test_keep_alive_connection_is_idle_limited_and_the_next_head_timed(http: Http) -> None:
    client = asking(http)
    http.answer()
    http.clock.advance(LIMITS.idle_s - 1)
    client.send(GET[:5])
    http.clock.advance(LIMITS.head_s - 1)
    client.send(GET[5:])
    http.answer()
    assert len(http.server.requests) == 2
    http.clock.advance(LIMITS.idle_s)
    assert client.closed


def test_requests_that_come_together_are_answered_one_after_the_other(http: Http) -> None:
    client = http.client()
    client.send(GET + GET)
    http.answer()
    http.clock.advance(3600)
    assert not client.closed
    http.answer()
    assert len(http.server.requests) == 2
    http.clock.advance(LIMITS.idle_s)
    assert client.closed


def test_response_that_is_not_read_times_out(http: Http) -> None:
    client = asking(http)
    client.channel.pauseProducing()  # As the transport does, whose buffer is full.
    http.answer()
    http.clock.advance(LIMITS.answer_s - 1)
    assert not client.closed
    http.clock.advance(1)
    assert client.closed


def test_response_read_late_keeps_the_connection_for_the_next_request(http: Http) -> None:
    client = asking(http)
    client.channel.pauseProducing()
    http.answer()
    http.clock.advance(LIMITS.answer_s - 1)
    client.channel.resumeProducing()
    http.clock.advance(LIMITS.idle_s - 1)
    assert not client.closed
    client.send(GET)
    assert len(http.server.requests) == 2


# --- Bodies ---


def test_a_body_that_is_announced_too_long_is_not_read(http: Http) -> None:
    client = http.client()
    client.send(post(LIMITS.body_bytes + 1))
    assert client.status == 413
    answered = client.transport.value()
    client.send(bytes(LIMITS.body_bytes + 1))
    http.clock.advance(LIMITS.linger_s)
    assert client.closed
    assert client.transport.value() == answered
    assert not http.server.requests


def test_expect_continue_with_too_long_body_is_413_without_continue(http: Http) -> None:
    head = post(LIMITS.body_bytes + 1).replace(b"Host: a", b"Host: a\r\nExpect: 100-continue")
    client = http.client()
    client.send(head)
    assert b"100 Continue" not in client.transport.value()
    assert client.status == 413


def test_a_body_that_gets_too_long_is_refused(http: Http) -> None:
    client = http.client()
    client.send(CHUNKED, *(chunk(64 * KIB) for _ in range(LIMITS.body_bytes // (64 * KIB))))
    assert client.status == 0
    client.send(chunk(1))
    assert client.status == 413


def test_body_in_too_many_chunks_is_400(http: Http) -> None:
    client = http.client()
    client.send(CHUNKED, chunk(1) * (LIMITS.pieces + 100))
    assert client.status == 400


def test_the_longest_body_arrives_whole(http: Http) -> None:
    client = http.client()
    body = bytes(range(256)) * (LIMITS.body_bytes // 256)
    client.send(post(len(body)), *(body[at : at + KIB] for at in range(0, len(body), KIB)))
    assert http.server.bodies[0].get_nowait() == {"type": "http.request", "body": body, "more_body": False}


def fill(http: Http) -> list[Client]:
    """Clients whose bodies have all the room there is."""
    clients = []
    for _ in range(LIMITS.bodies_bytes // (LIMITS.body_bytes - LIMITS.small_bytes) + 1):
        clients.append(http.client())
        clients[-1].send(post(LIMITS.body_bytes), bytes(LIMITS.body_bytes - 1))
    assert [client.status for client in clients] == [0] * (len(clients) - 1) + [503]
    return clients[:-1]


def send_longest(http: Http) -> Client:
    client = http.client()
    client.send(post(LIMITS.body_bytes), bytes(LIMITS.body_bytes))
    return client


def test_request_bodies_share_a_total_limit_and_small_ones_still_pass(http: Http) -> None:
    first, *_ = fill(http)
    small = http.client()
    small.send(post(LIMITS.small_bytes), bytes(LIMITS.small_bytes))
    assert len(http.server.requests) == 1, "a form finds room at any time"
    first.leave()
    send_longest(http)
    assert len(http.server.requests) == 2


def test_an_answered_body_makes_room(http: Http) -> None:
    first, *_ = fill(http)
    first.send(b"a")
    http.answer()
    send_longest(http)
    assert len(http.server.requests) == 2


def test_disconnected_client_frees_its_body_room_once_its_request_ends(http: Http) -> None:
    first, *_ = fill(http)
    first.send(b"a")
    first.leave()
    assert send_longest(http).status == 503
    http.server.end(http.server.requests[0])
    send_longest(http)
    assert len(http.server.requests) == 2


# --- Connections ---


def test_an_address_has_so_many_connections() -> None:
    http = Http(HttpLimits(max_connections_per_address=2))
    first, second, third = (http.connect() for _ in range(3))
    assert first
    assert second
    assert third is None
    assert http.connect("192.0.2.8")
    first.leave()
    assert http.connect()


def test_connection_place_is_freed_once_the_left_clients_request_ends() -> None:
    http = Http(HttpLimits(max_connections_per_address=1))
    first = asking(http)
    first.leave()
    assert http.connect() is None
    http.server.end(http.server.requests[0])
    assert http.connect()


def test_total_connections_are_limited_and_a_proxy_may_use_them_all() -> None:
    http = Http(HttpLimits(max_connections=5, max_connections_per_address=1, proxies=(ip_network("10.0.0.0/8"),)))
    assert [http.connect("10.1.2.3") is not None for _ in range(6)] == [True] * 5 + [False]
    assert http.connect() is None


ANSWER = bytes(range(256)) * (8 * MIB // 256)
"""Longer than what the system's buffers of a connection take."""
STALLED = 20
"""So many turns in which nothing moves."""


class Answering(Server):
    """All requests, at once."""

    def create_application(self, protocol: Any, scope: Any) -> Any:
        queue = super().create_application(protocol, scope)
        self.factory.reactor.callLater(0, answer, protocol, ANSWER)
        return queue

    factory: Any


class Listening:
    """A factory on a port of its own, whose reactor turns as the test says."""

    def __init__(self, server: Server, limits: HttpLimits) -> None:
        self.reactor = EPollReactor()
        self.server = server
        self.factory = Factory(server, limits, self.reactor)
        if isinstance(server, Answering):
            server.factory = self.factory
        self._port = self.reactor.listenTCP(0, self.factory, interface="127.0.0.1")
        self._stack = ExitStack()

    def connect(self, host: str = "127.0.0.1") -> socket.socket:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        client.bind((host, 0))
        client.connect(("127.0.0.1", self._port.getHost().port))
        client.setblocking(False)
        return self._stack.enter_context(closing(client))

    def turn(self) -> None:
        self.reactor.iterate(0.002)

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < deadline
            self.turn()

    def read_answers(self, client: socket.socket, got: bytearray, count: int = 1) -> None:
        """Until they are whole, with what came before."""

        def are_there() -> bool:
            got.extend(read(client))
            return len(got) >= count * len(ANSWER) and got.endswith(ANSWER)

        self.until(are_there)

    def until_nothing_moves(self) -> None:
        still, held = 0, -1
        while still < STALLED:
            self.turn()
            still = still + 1 if self.factory.answers.held_bytes == held else 0
            held = self.factory.answers.held_bytes

    def close(self) -> None:
        self._stack.close()
        self._port.stopListening()
        self.until(lambda: not self.factory.answers.held_bytes)
        for _ in range(3):
            self.turn()


@pytest.fixture
def listen() -> Iterator[Callable[..., Listening]]:
    with ExitStack() as stack:
        yield lambda *given: stack.enter_context(closing(Listening(*given)))


def read(client: socket.socket) -> bytes:
    with suppress(BlockingIOError):
        return client.recv(1 << 20)
    return b""


def test_requests_that_come_together_wait_until_answers_are_taken(listen: Callable[..., Listening]) -> None:
    listening = listen(Answering(), HttpLimits())
    client = listening.connect()
    client.sendall(GET * 3)
    listening.until(lambda: bool(listening.server.requests))
    listening.until_nothing_moves()
    assert len(listening.server.requests) == 1
    assert 0 < listening.factory.answers.held_bytes < len(ANSWER)

    got = bytearray()
    listening.read_answers(client, got, count=3)
    assert got.count(ANSWER) == len(listening.server.requests) == 3
    assert listening.factory.answers.held_bytes == 0


def test_input_is_not_read_while_the_response_is_not_taken(listen: Callable[..., Listening]) -> None:
    listening = listen(Server(), HttpLimits())
    client = listening.connect()
    client.sendall(GET)
    listening.until(lambda: bool(listening.server.requests))
    request = listening.server.requests[0]
    request.handle_reply({"type": "http.response.start", "status": 200, "headers": []})
    request.handle_reply({"type": "http.response.body", "body": ANSWER, "more_body": True})
    listening.until_nothing_moves()

    poured, refused = 0, 0
    while poured < 64 * MIB and refused < STALLED:
        try:
            poured += client.send(bytes(MIB))
            refused = 0
        except BlockingIOError:
            refused += 1
        listening.turn()
    assert refused == STALLED, "it is the client that waits"


def test_stuck_clients_are_closed_when_response_memory_is_full(
    listen: Callable[..., Listening], caplog: pytest.LogCaptureFixture
) -> None:
    limits = HttpLimits(answers_bytes=3 * len(ANSWER))
    listening = listen(Answering(), limits)
    held = listening.factory.answers
    reader = listening.connect("127.0.0.3")
    reader.sendall(GET)
    listening.until(lambda: bool(held.held_bytes))

    got, most = bytearray(), 0
    stuck: list[socket.socket] = []
    with caplog.at_level(logging.WARNING, "rtmpweb.embedded.connections"):
        while len(stuck) < 12:
            stuck.append(listening.connect("127.0.0.2"))
            stuck[-1].sendall(GET)
            for _ in range(5):
                listening.turn()
                most = max(most, held.held_bytes)
                with suppress(BlockingIOError):
                    got += reader.recv(PIECE_BYTES)  # Slowly.
    assert most <= limits.answers_bytes + len(ANSWER)
    assert held.held_bytes <= limits.answers_bytes
    (line, *_) = [record.getMessage() for record in caplog.records]
    assert "http 127.0.0.2: connection closed" in line

    listening.read_answers(reader, got)


def test_single_response_may_exceed_the_total_response_limit(listen: Callable[..., Listening]) -> None:
    listening = listen(Answering(), HttpLimits(answers_bytes=MIB))
    client = listening.connect()
    client.sendall(GET)
    listening.read_answers(client, bytearray())
