"""The bad network, with a server that sends what it has at once."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.links import Link
from tests.receivers import HttpReceiver, answer, http_receiver

BODY = bytes(range(256)) * 400


@pytest.fixture
def server() -> Iterator[HttpReceiver]:
    with http_receiver() as found:
        found.behaviours = [answer(200, BODY)]
        yield found


def took_s(proxy: Link) -> float:
    """Until all of the body has come as it was sent."""
    began = time.monotonic()
    got = httpx.post(f"http://127.0.0.1:{proxy.port}/", timeout=20, trust_env=False)
    assert got.content == BODY
    return time.monotonic() - began


def test_proxy_limits_its_bytes_per_second(server: HttpReceiver) -> None:
    with Link(server.port, bytes_per_s=250_000) as proxy:
        assert took_s(proxy) >= 0.9 * len(BODY) / 250_000
        proxy.limit(None)
        assert took_s(proxy) < 1.5


def test_connections_share_the_byte_rate_of_the_proxy(server: HttpReceiver) -> None:
    with Link(server.port, bytes_per_s=500_000) as proxy, ThreadPoolExecutor(2) as several:
        began = time.monotonic()
        list(several.map(lambda _: took_s(proxy), range(2)))
        assert time.monotonic() - began >= 0.9 * 2 * len(BODY) / 500_000


def test_proxy_stalls_and_loses_nothing(server: HttpReceiver) -> None:
    with Link(server.port) as proxy:
        proxy.stall(1)
        assert took_s(proxy) >= 0.9
        assert took_s(proxy) < 0.9


def test_cut_proxy_passes_nothing_until_mended(server: HttpReceiver) -> None:
    with Link(server.port) as proxy:
        proxy.cut()
        with pytest.raises(httpx.TimeoutException):
            httpx.post(f"http://127.0.0.1:{proxy.port}/", timeout=0.3, trust_env=False)
        proxy.mend()
        assert took_s(proxy) < 5
