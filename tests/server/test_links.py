"""The bad network, with a server that sends what it has at once."""

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final, Self

import httpx
import pytest

from tests.receivers import HttpReceiver, answer, http_receiver

# --- A TCP proxy on loopback that behaves like a bad network: slow, narrow, stalling, cut and mended ---

READ_BYTES: Final = 64 * 1024
PIECE_S: Final = 0.05
"""The time that one read of a limited link takes at its byte rate."""


class Link:
    """Passes connections from `port` to `target`, both on loopback, by threads of its own.

    While the link is cut, it swallows all bytes silently, as an unplugged cable does.
    """

    def __init__(self, target: int, *, delay_s: float = 0.0, bytes_per_s: float | None = None, port: int = 0) -> None:
        """
        Args:
            delay_s: The delay of each direction.
            bytes_per_s: The limit for the target's bytes to all connections together. None: no limit.
        """
        self.connections = 0
        self._target, self._delay_s, self._bytes_per_s = target, delay_s, bytes_per_s
        self._free_at = 0.0
        """When the next bytes from the target may pass, by the monotonic clock."""
        self._lock = threading.Lock()
        self._is_whole = threading.Event()
        self._is_whole.set()
        self._sockets: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, name="link", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._sockets.add(self._listener)
        self.mend()
        self._listener.close()

    def limit(self, bytes_per_s: float | None) -> None:
        self._bytes_per_s = bytes_per_s

    def stall(self, seconds: float) -> None:
        """Hold back everything from the target for that long. Nothing is lost."""
        with self._lock:
            self._free_at = max(self._free_at, time.monotonic()) + seconds

    def cut(self) -> None:
        self._is_whole.clear()

    def mend(self) -> None:
        """Pass new connections again. Connections from before end, as their bytes are lost."""
        for each in list(self._sockets):
            _shut(each)
        self._is_whole.set()

    def _accept(self) -> None:
        with suppress(OSError):  # The listener is closed.
            while True:
                near, _ = self._listener.accept()
                self._sockets.add(near)
                threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        self._is_whole.wait()
        self.connections += 1
        with near, suppress(OSError), socket.create_connection(("127.0.0.1", self._target)) as far:
            self._sockets.add(far)
            there = threading.Thread(target=self._pass, args=(near, far, False), daemon=True)
            there.start()
            self._pass(far, near, True)
            there.join()
            self._sockets -= {near, far}

    def _pass(self, source: socket.socket, sink: socket.socket, is_limited: bool) -> None:
        with suppress(OSError):
            while data := source.recv(self._piece_bytes):
                if not self._is_whole.is_set():
                    continue
                if is_limited:
                    self._wait(len(data))
                time.sleep(self._delay_s)
                if self._is_whole.is_set():
                    sink.sendall(data)
        _shut(source)
        _shut(sink)

    def _wait(self, size: int) -> None:
        rate, now = self._bytes_per_s, time.monotonic()
        with self._lock:
            if rate is not None:
                self._free_at = max(self._free_at, now) + size / rate
            wait_s = self._free_at - now
        time.sleep(max(0.0, wait_s))

    @property
    def _piece_bytes(self) -> int:
        rate = self._bytes_per_s
        return READ_BYTES if rate is None else min(READ_BYTES, max(1, round(rate * PIECE_S)))


def _shut(each: socket.socket) -> None:
    with suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)


# --- The tests ---

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
