"""Answers that clients do not take, or take slowly: by sockets, as it is about what the transport holds."""

import logging
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from typing import Any

import pytest
from twisted.internet import epollreactor

from rtmpweb.embedded.connections import MIB, PIECE_BYTES, Factory, HttpLimits
from tests.rtmpweb.channels import GET, Server, answer

EPollReactor: Any = epollreactor.EPollReactor

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
    """What is there now."""
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

    def is_all_there() -> bool:
        got.extend(read(client))
        return len(got) >= 3 * len(ANSWER) and got.endswith(ANSWER)

    listening.until(is_all_there)
    assert got.count(ANSWER) == len(listening.server.requests) == 3
    assert listening.factory.answers.held_bytes == 0


def test_what_comes_during_an_answer_that_nobody_takes_is_not_read(listen: Callable[..., Listening]) -> None:
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


def test_who_takes_nothing_makes_room_for_who_reads(
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

    def is_all_there() -> bool:
        got.extend(read(reader))
        return got.endswith(ANSWER)

    listening.until(is_all_there)


def test_an_answer_may_be_longer_than_all_may_be(listen: Callable[..., Listening]) -> None:
    listening = listen(Answering(), HttpLimits(answers_bytes=MIB))
    client = listening.connect()
    client.sendall(GET)
    got = bytearray()

    def is_all_there() -> bool:
        got.extend(read(client))
        return got.endswith(ANSWER)

    listening.until(is_all_there)
