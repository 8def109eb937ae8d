"""A watch page behind a network that stalls and has little room, and what hls.js and the viewer notice of it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from typing import Final

from playwright.sync_api import Browser

from tests.e2e.watching import EXCUSE_S, LATE, Greys, Watched, hls_port, watching
from tests.hls.proxy import Proxy
from tests.server_process import ServerProcess

STREAM_BYTES_PER_S: Final = 60_000
"""About what the clip has, with its playlists."""
SHORT_STALL_S: Final = 0.5
"""Less than what players of low latency have in hand."""
STALL_S: Final = 1.6
"""More than that; players of ordinary latency have twice as much in hand."""
THROTTLED: Final = 1.5
"""Times what the stream has."""
CALM_S: Final = 4.0
MOST_STALLS: Final = 8
LOOK_MS: Final = 50


@dataclass(frozen=True)
class Outcome:
    errors: list[str]
    """Of hls.js."""
    delays: list[float]
    """Seconds, of each grey."""
    asked: list[str]
    watched_s: float
    seconds: float
    waited_s: float
    """What page or encoder stood still at once at most, for want of a processor."""

    @property
    def faults(self) -> list[str]:
        """The errors, but for those of a machine that stood still."""
        is_excused = self.waited_s > EXCUSE_S
        return [error for error in self.errors if not (is_excused and error.startswith(LATE))]


def troubles(proxy: Proxy) -> Iterator[None]:
    """One after the other, for as long as they are asked for."""
    for trouble in cycle(("stall", "throttle")):
        if trouble == "stall":
            proxy.stall(SHORT_STALL_S)
        else:
            proxy.limit(THROTTLED * STREAM_BYTES_PER_S)
        yield
        proxy.limit(None)
        yield


def watch_through(browser: Browser, server: ServerProcess, encoder: Greys, path: str, seconds: float) -> Outcome:
    """For so long, from the first picture on. The page goes on by itself."""
    with Proxy(hls_port(server, path)) as proxy, watching(browser, server, path, hls_port=proxy.port) as watched:
        watched.wait_state("live")
        watched.plays(2.0)
        began, at = time.monotonic(), watched.now["currentTime"]
        trouble = troubles(proxy)
        while time.monotonic() - began < seconds:
            next(trouble)
            watched.page.wait_for_timeout(CALM_S * 1000 / 2)
            assert watched.now["state"] == "live"
        watched.plays()
        passed_s, watched_s = time.monotonic() - began, watched.now["currentTime"] - at
        assert watched.faults == []
        waited_s = max(watched.waited_s, encoder.late_s)
        return Outcome(watched.errors(), watched.delays(encoder.sent), watched.asked, watched_s, passed_s, waited_s)


@contextmanager
def stalling_until_ordinary(browser: Browser, server: ServerProcess, path: str) -> Iterator[tuple[Watched, Proxy]]:
    """A page whose network stands still until it goes on without low latency: given out in the moment when it does."""
    with Proxy(hls_port(server, path)) as proxy, watching(browser, server, path, hls_port=proxy.port) as watched:
        watched.plays()
        for _ in range(MOST_STALLS):
            proxy.stall(STALL_S)
            until = time.monotonic() + CALM_S
            while time.monotonic() < until:
                if not watched.now["isLow"]:
                    yield watched, proxy
                    return
                watched.page.wait_for_timeout(LOOK_MS)
        raise AssertionError(f"after {MOST_STALLS} stalls of {STALL_S} s it is of low latency still")
