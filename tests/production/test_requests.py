"""The connections that PostgreSQL has, and who takes them: requests, as many as may be at a time, and strangers."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import psycopg
import pytest

from tests import loops
from tests.production.installation import Production
from tests.server_process import wait_for

pytestmark = [pytest.mark.production, pytest.mark.timeout(120)]

REQUESTS = 150
AT_ONCE = 16
"""RTMPWEB_HTTP_REQUESTS."""
OTHERS = 8
"""By which the connections of all other threads and processes may differ meanwhile."""

CONNECTIONS = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"


async def ask(port: int, number: int) -> int:
    """The status for somebody whose session nobody knows."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"GET / HTTP/1.1\r\nHost: localhost\r\nCookie: sessionid={number:032}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode())
    _, status, *_ = (await reader.readline()).split()
    await reader.read()
    writer.close()
    await writer.wait_closed()
    return int(status)


async def ask_all(port: int) -> list[int]:
    return await asyncio.gather(*(ask(port, number) for number in range(REQUESTS)))


@contextmanager
def counted(production: Production) -> Iterator[list[int]]:
    """How many connections there are, again and again while the block runs."""
    found: list[int] = []
    over = threading.Event()
    with psycopg.connect(production.postgres.url, autocommit=True) as connection:

        def count() -> None:
            while not over.wait(0.01):
                found.append(connection.execute(CONNECTIONS).fetchall()[0][0])

        thread = threading.Thread(target=count)
        thread.start()
        try:
            wait_for(lambda: found, timeout_s=5, what="they are counted")
            yield found
        finally:
            over.set()
            thread.join()


def test_a_flood_of_requests_takes_few_connections(production: Production) -> None:
    with counted(production) as found:
        before = found[-1]
        statuses = loops.run(ask_all(production.web.port))
        most = max(found)
        assert set(statuses) == {302}
        assert most <= before + AT_ONCE + OTHERS
        wait_for(lambda: found[-1] <= before + OTHERS, timeout_s=5, what="requests have left none behind")


def test_health_knows_that_there_is_no_connection_left(production: Production) -> None:
    def database() -> str:
        found: str = production.request("/healthz", token="")[1]["database"]
        return found

    assert database() == "ok"
    with ExitStack() as held:

        def is_told() -> bool:
            """Whatever the others give back is taken."""
            with suppress(psycopg.OperationalError):
                while True:
                    held.enter_context(psycopg.connect(production.postgres.url))
            return database() == "unreachable"

        wait_for(is_told, timeout_s=15, what="health says so")
        status, told = production.request("/api/v1/streams", token="anything")
        assert status == 503
        assert "takes no more connections" in told["detail"]
    wait_for(lambda: database() == "ok", timeout_s=15, what="there are some again")
    production.wait_ready()
