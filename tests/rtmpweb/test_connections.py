"""What a connection of HTTP may take: time, by a clock of the test's own, and room for bodies."""

from ipaddress import ip_network

import pytest

from rtmpweb.embedded.connections import KIB, HttpLimits
from tests.rtmpweb.channels import GET, Client, Http, post

LIMITS = HttpLimits()


@pytest.fixture
def http() -> Http:
    return Http(LIMITS)


CHUNKED = b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(size: int) -> bytes:
    return b"%x\r\n%s\r\n" % (size, bytes(size))


# --- Time ---


@pytest.mark.parametrize("begin", [b"", b"GET /x HTTP/1.1\r\n"], ids=["nothing", "a request's line"])
def test_a_head_that_drips_has_its_time(http: Http, begin: bytes) -> None:
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
def test_a_body_that_drips_has_its_time(http: Http, head: bytes, piece: bytes) -> None:
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
    client = http.client()
    client.send(GET)
    http.clock.advance(3600)
    http.answer()
    assert client.status == 200
    assert not client.closed


def test_the_next_request_may_wait_and_then_has_its_time(http: Http) -> None:
    client = http.client()
    client.send(GET)
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


def test_an_answer_that_nobody_takes_has_its_time(http: Http) -> None:
    client = http.client()
    client.send(GET)
    client.channel.pauseProducing()  # As the transport does, whose buffer is full.
    http.answer()
    http.clock.advance(LIMITS.answer_s - 1)
    assert not client.closed
    http.clock.advance(1)
    assert client.closed


def test_one_that_is_taken_in_the_end_is_followed_by_the_next(http: Http) -> None:
    client = http.client()
    client.send(GET)
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


def test_who_asks_before_sending_is_not_told_to(http: Http) -> None:
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


def test_a_body_in_crumbs_is_refused(http: Http) -> None:
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


def test_all_bodies_have_a_bound_together(http: Http) -> None:
    first, *_ = fill(http)
    small = http.client()
    small.send(post(LIMITS.small_bytes), bytes(LIMITS.small_bytes))
    assert len(http.server.requests) == 1, "a form finds room at any time"
    first.leave()
    again = http.client()
    again.send(post(LIMITS.body_bytes), bytes(LIMITS.body_bytes))
    assert len(http.server.requests) == 2


def test_an_answered_body_makes_room(http: Http) -> None:
    first, *_ = fill(http)
    first.send(b"a")
    http.answer()
    again = http.client()
    again.send(post(LIMITS.body_bytes), bytes(LIMITS.body_bytes))
    assert len(http.server.requests) == 2


def test_who_leaves_makes_room_once_nothing_runs_for_it(http: Http) -> None:
    first, *_ = fill(http)
    first.send(b"a")
    first.leave()
    early = http.client()
    early.send(post(LIMITS.body_bytes), bytes(LIMITS.body_bytes))
    assert early.status == 503
    http.server.end(http.server.requests[0])
    later = http.client()
    later.send(post(LIMITS.body_bytes), bytes(LIMITS.body_bytes))
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


def test_a_place_is_free_once_nothing_runs_for_who_left() -> None:
    http = Http(HttpLimits(max_connections_per_address=1))
    first = http.client()
    first.send(GET)
    first.leave()
    assert http.connect() is None
    http.server.end(http.server.requests[0])
    assert http.connect()


def test_all_have_so_many_together_and_a_proxy_may_have_all() -> None:
    http = Http(HttpLimits(max_connections=5, max_connections_per_address=1, proxies=(ip_network("10.0.0.0/8"),)))
    assert [http.connect("10.1.2.3") is not None for _ in range(6)] == [True] * 5 + [False]
    assert http.connect() is None
