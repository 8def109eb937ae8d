"""A WebSocket of a real process is refused with a code that reaches the page: of ours, and of a plain Daphne."""

import socket
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.production.parts import Daphne, Web
from tests.server_process import Installation

REQUEST = (
    "GET /ws/live/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: http://127.0.0.1:{port}\r\n"
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nCookie: sessionid={session}\r\n\r\n"
)


@pytest.fixture(scope="module", params=[Web, Daphne])
def web(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Web]:
    """Its database answers, but has lost the table of log-in sessions since it started: to who has one, an error."""
    installation = Installation(tmp_path_factory.mktemp("web"))
    installation.put_tables()
    process: Web = request.param(installation.folder, installation.environment)
    process.start()
    with closing(sqlite3.connect(installation.database)) as connection, connection:
        connection.execute("DROP TABLE django_session")
    yield process
    process.stop()


def close_code(port: int, session: str) -> int:
    """Of the first frame that follows the answer to the handshake (RFC 6455, 5.5.1)."""
    with socket.create_connection(("127.0.0.1", port), 10) as page, page.makefile("rb") as read:
        page.sendall(REQUEST.format(port=port, session=session).encode())
        assert read.readline().startswith(b"HTTP/1.1 101 ")
        while read.readline().strip():
            pass
        opcode, length = read.read(2)
        assert opcode == 0x88
        code: int
        (code,) = struct.unpack_from(">H", read.read(length))
        return code


@pytest.mark.parametrize(("session", "code"), [("", 4401), ("0" * 32, 4503)], ids=["nobody", "the database is away"])
def test_the_page_is_told_why(web: Web, session: str, code: int) -> None:
    assert close_code(web.port, session) == code
