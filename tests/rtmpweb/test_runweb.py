"""`manage.py runweb` under clients that take more than their share."""

import json
import socket
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from threading import Thread

import pytest
from wsproto import ConnectionType, WSConnection
from wsproto.events import CloseConnection, Event, Ping, Pong, Request, TextMessage

from tests.production.parts import Web
from tests.rtmpweb.processes import MANAGE, held, run
from tests.server_process import Installation, wait_for

pytestmark = [pytest.mark.serve, pytest.mark.matrix, pytest.mark.timeout(60)]

HEAD_S = BODY_S = 3.0
PLACES = 25
"""Connections of one address."""
LONG_S = 15.0
"""More than either, on a machine that others keep busy; less than for ever."""
BODY_MIB = 400
MESSAGE_BYTES = 4096
"""Of a page's WebSocket, at most."""
FLAT_KIB = 40 * 1024
"""By which the process may grow meanwhile."""

STREAMS = 300
"""That the wall tells of."""

SESSION = f"""
from django.contrib.auth.models import User
from django.test import Client
from ingest.models import Application, Stream
live, _ = Application.objects.get_or_create(name="live")
Stream.objects.bulk_create(Stream(application=live, name="cam%d" % number) for number in range({STREAMS}))
client = Client()
client.force_login(User.objects.create_superuser("watcher"))
print(client.cookies["sessionid"].value)
"""

UPGRADE = (
    "GET /ws/live/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: http://127.0.0.1:{port}\r\n"
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nCookie: sessionid={session}\r\n\r\n"
)
SAID = b"\x81\x81" + bytes(4) + b"a"
"""A frame of a page: a text of one character, masked by nothing."""


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    made = Installation(tmp_path_factory.mktemp("web") / "var")
    made.put_tables()
    return made


@pytest.fixture(scope="module")
def web(installation: Installation) -> Iterator[Web]:
    limits = {
        "RTMPWEB_HTTP_HEAD_S": str(HEAD_S),
        "RTMPWEB_HTTP_BODY_S": str(BODY_S),
        "RTMPWEB_HTTP_CONNECTIONS_PER_ADDRESS": str(PLACES),
    }
    process = Web(installation.folder, {**installation.environment, **limits})
    process.start()
    yield process
    process.stop()


@pytest.fixture(scope="module")
def session(installation: Installation) -> str:
    """Of somebody who may view."""
    return installation.manage("shell", "--no-imports", "-c", SESSION).split()[-1]


@contextmanager
def connected(web: Web) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", web.port), LONG_S) as client:
        yield client


def status(client: socket.socket) -> int:
    """Of the answer; 0: there is none, but the connection's end."""
    with client.makefile("rb") as read:
        words = read.readline().split()
    return int(words[1]) if words else 0


def post(length: str) -> bytes:
    return f"POST /login/ HTTP/1.1\r\nHost: localhost\r\n{length}\r\n\r\n".encode()


def test_runweb_serves_logs_its_address_and_stops_in_order(installation: Installation) -> None:
    process = Web(installation.folder, installation.environment)
    process.start()
    with urllib.request.urlopen(process.url + "/login/", timeout=10) as answer:  # noqa: S310 - its own address
        assert answer.status == 200
        assert answer.headers["Server"] == "rtmpweb"
    assert f"Ready: dashboard {process.url}/" in process.log
    assert process.stop() == 0
    assert "Traceback" not in process.log


def test_a_busy_port_is_named_in_one_sentence(installation: Installation) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        done = run(*MANAGE, "runweb", only={**installation.environment, "RTMPWEB_HTTP": f"127.0.0.1:{port}"})
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if line]
    assert f"Port {port} is in use" in line
    assert "RTMPWEB_HTTP" in line


def drip(client: socket.socket) -> None:
    """Goes on until the other end has closed."""
    with suppress(OSError):
        while True:
            client.sendall(b"a")
            time.sleep(0.1)


@pytest.mark.parametrize(
    ("begin", "least_s"),
    [(b"GET / HTTP/1.1\r\nHost: ", HEAD_S), (post("Content-Length: 100000"), BODY_S)],
    ids=["head", "body"],
)
def test_slowly_sent_request_is_408_and_closed(web: Web, begin: bytes, least_s: float) -> None:
    with connected(web) as client:
        began = time.monotonic()
        client.sendall(begin)
        dripping = Thread(target=drip, args=[client])
        dripping.start()
        assert status(client) == 408
        assert time.monotonic() - began >= least_s - 0.5
        dripping.join(LONG_S)
        assert not dripping.is_alive(), "it is closed, soon after it was told"


def pour(client: socket.socket, piece: bytes) -> None:
    with suppress(OSError):
        for _ in range(BODY_MIB):
            client.sendall(piece)


@pytest.mark.parametrize(
    ("length", "piece"),
    [
        (f"Content-Length: {BODY_MIB << 20}", bytes(1 << 20)),
        ("Transfer-Encoding: chunked", b"100000\r\n" + bytes(1 << 20) + b"\r\n"),
    ],
    ids=["announced", "chunked"],
)
def test_a_body_of_400_mib_is_refused_and_not_held(web: Web, length: str, piece: bytes) -> None:
    with urllib.request.urlopen(web.url + "/login/", timeout=LONG_S) as answer:  # noqa: S310 - its own address
        answer.read()
    before = held(web.pid)
    with connected(web) as client:
        client.sendall(post(length))
        pouring = Thread(target=pour, args=[client, piece])
        pouring.start()
        assert status(client) == 413
        grown = held(web.pid).memory_kib - before.memory_kib
        pouring.join(LONG_S)
        assert not pouring.is_alive()
    assert grown < FLAT_KIB
    assert held(web.pid).memory_kib - before.memory_kib < FLAT_KIB


def answers(client: socket.socket) -> bool:
    with suppress(ConnectionError):
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        return status(client) > 0
    return False


def test_an_address_has_so_many_connections(web: Web) -> None:
    def all_places() -> bool:
        """Those of the tests before are free, a little later at most."""
        with ExitStack() as stack:
            clients = [stack.enter_context(connected(web)) for _ in range(PLACES)]
            if not all(answers(client) for client in clients):
                return False
            with connected(web) as one_more:
                assert not answers(one_more)
            return True

    assert wait_for(all_places, timeout_s=LONG_S, what="there are as many places as there should be")
    assert "RTMPWEB_HTTP_CONNECTIONS_PER_ADDRESS" in web.log


def upgraded(client: socket.socket, web: Web, session: str = "") -> bool:
    client.sendall(UPGRADE.format(port=web.port, session=session).encode())
    return status(client) == 101


def test_a_websocket_gives_its_place_back(web: Web) -> None:
    def is_let_in() -> bool:
        """Those before it have ended, or do so soon."""
        with connected(web) as client, suppress(ConnectionError):
            return upgraded(client, web)
        return False

    for _ in range(2 * PLACES):
        wait_for(is_let_in, timeout_s=LONG_S, what="there is a place")


def test_invalid_websocket_upgrade_is_400_and_frees_its_place(web: Web) -> None:
    broken = UPGRADE.format(port=web.port, session="").replace("Sec-WebSocket-Key", "X-Key").encode()
    for _ in range(2 * PLACES):
        with connected(web) as client:
            client.sendall(broken)
            assert status(client) == 400


def test_websocket_client_that_floods_is_disconnected(web: Web, session: str) -> None:
    with connected(web) as client:
        assert upgraded(client, web, session)
        talking = Thread(target=pour, args=[client, SAID * 100])
        talking.start()
        with suppress(ConnectionResetError):
            while client.recv(1 << 16):
                pass
        talking.join(LONG_S)
        assert not talking.is_alive()


class Page:
    def __init__(self, client: socket.socket, web: Web, session: str) -> None:
        self.client = client
        self._ws = WSConnection(ConnectionType.CLIENT)
        extra = [(b"Origin", web.url.encode()), (b"Cookie", f"sessionid={session}".encode())]
        self.say(Request(host=f"127.0.0.1:{web.port}", target="/ws/live/", extra_headers=extra))
        self.events = self._events()

    def say(self, *events: Event) -> None:
        self.client.sendall(b"".join(map(self._ws.send, events)))

    def _events(self) -> Iterator[Event]:
        """Until the connection is closed."""
        with suppress(ConnectionResetError):
            while data := self.client.recv(1 << 16):
                self._ws.receive_data(data)
                yield from self._ws.events()

    def text(self) -> str:
        text = ""
        for event in self.events:
            if isinstance(event, TextMessage):
                text += event.data
                if event.message_finished:
                    break
        return text


def test_websocket_receives_the_snapshot_of_all_streams(web: Web, session: str) -> None:
    with connected(web) as client:
        page = Page(client, web, session)
        assert len(json.loads(page.text())["known"]) == STREAMS


@pytest.mark.parametrize(
    "said",
    [
        [TextMessage("a" * (MESSAGE_BYTES + 1))],
        [TextMessage("a" * MESSAGE_BYTES, message_finished=False), TextMessage("a", message_finished=False)],
    ],
    ids=["at once", "in parts"],
)
def test_websocket_message_beyond_the_size_limit_disconnects(web: Web, session: str, said: list[Event]) -> None:
    with connected(web) as client:
        page = Page(client, web, session)
        assert page.text()
        page.say(TextMessage("a" * MESSAGE_BYTES), Ping())
        assert any(isinstance(event, Pong) for event in page.events)
        page.say(*said)
        assert not any(isinstance(event, TextMessage | CloseConnection) for event in page.events)
