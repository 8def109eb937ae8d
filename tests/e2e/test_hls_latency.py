"""How late viewers by HLS see what an encoder sends, and how soon they see anything, on loopback.

The pictures tell when they were sent (`test_hls_page.Greys`), and the page notes when it showed them.
"""

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser

from tests.e2e.test_hls_page import EXCUSE_S, LATE, Greys, Watched, hls_port, make_greys, told, watching
from tests.server.test_links import Link
from tests.server_process import ServerProcess
from tests.tools import require_tool

pytestmark = [
    pytest.mark.serve,
    pytest.mark.browser,
    pytest.mark.clients,
    pytest.mark.alone,
    pytest.mark.timeout(120),
]

PATH = "live/late"
SEGMENT_S = 2.0
"""As long as the clip's groups of pictures."""
LOW_S = 1.5
PLAIN_S = 3 * SEGMENT_S
AT_ONCE_S = 2.0
"""For a second of the stream, after the page has gone over to ordinary latency, while the network stands still."""
FIRST_S, FIRST_PACKAGED_S = 1.5, 3.0
"""From the page's opening to its first picture, where the stream is packaged, and where it is not yet."""
FEW = 5
"""Greys, of which the middle one counts."""
STALL_S = 1.6
"""More than what players of low latency have in hand; players of ordinary latency have twice as much."""
CALM_S = 4.0
MOST_STALLS = 8
LOOK_MS = 50
STALLED_S = 1.0
"""hls.js stays so much further behind after it has stalled."""


@pytest.fixture(scope="module")
def encoder(hls_server: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Greys]:
    require_tool("ffmpeg")
    clip = make_greys(tmp_path_factory.mktemp("greys") / "greys.flv")
    with Greys(hls_server, hls_server.create_keys([PATH])[PATH], clip) as publishing:
        yield publishing


def first_picture_s(watched: Watched) -> float:
    """Return the seconds from the page's opening to its first picture."""
    watched.page.wait_for_function("() => window.seen.length > 0")
    return float(watched.page.evaluate("window.seen[0].at - performance.timeOrigin / 1000"))


def excuse_s(watched: Watched, encoder: Greys) -> float:
    """Return by how much the page may be late because it or the encoder had no processor."""
    waited_s = max(watched.waited_s, encoder.late_s)
    has_stalled = waited_s > EXCUSE_S and any(error.startswith(LATE) for error in watched.errors())
    return waited_s + (STALLED_S if has_stalled else 0.0)


def delays_of(watched: Watched, encoder: Greys) -> list[float]:
    watched.page.wait_for_function("count => window.seen.length > count", arg=FEW, timeout=30_000)
    return watched.delays(encoder.sent)


@contextmanager
def stalling_until_ordinary(browser: Browser, server: ServerProcess, path: str) -> Iterator[tuple[Watched, Link]]:
    """A page whose network stalls until the page goes on without low latency. The block begins at that moment."""
    with Link(hls_port(server, path)) as proxy, watching(browser, server, path, hls_port=proxy.port) as watched:
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


def test_low_latency_hls_delay_and_first_picture_are_within_limits(
    hls_server: ServerProcess, browser: Browser, encoder: Greys, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody has watched before: the first picture comes once the stream is packaged."""
    with watching(browser, hls_server, PATH) as watched:
        first_s = first_picture_s(watched)
        delays, now = delays_of(watched, encoder), watched.now
        excused_s = excuse_s(watched, encoder)
    with watching(browser, hls_server, PATH) as watched:
        again_s, again_excused_s = first_picture_s(watched), excuse_s(watched, encoder)
    with capsys.disabled():
        print(f"\nFirst picture after {first_s:.2f} s, or {again_s:.2f} s; delay {told(delays)}")  # noqa: T201
    late_s = statistics.median(delays)
    assert any("_HLS_part=" in url for url in watched.asked)
    assert late_s <= LOW_S + excused_s
    assert now["latency"] == pytest.approx(late_s, abs=0.5), "hls.js knows it by the playlist's dates"
    assert first_s <= FIRST_PACKAGED_S + excused_s
    assert again_s <= FIRST_S + again_excused_s


def test_hls_fallback_without_low_latency_stays_within_its_delay_limit(
    hls_server: ServerProcess, browser: Browser, encoder: Greys, capsys: pytest.CaptureFixture[str]
) -> None:
    """The network stands still again and again: the page goes on without low latency, at once, and stalls no more."""
    with stalling_until_ordinary(browser, hls_server, PATH) as (watched, proxy):
        fell = time.time()
        proxy.stall(STALL_S)
        watched.plays(timeout_s=AT_ONCE_S)
        watched.page.evaluate("window.seen.length = 0")
        delays, now = delays_of(watched, encoder), watched.now
        stalls = [error for error in watched.errors(since=fell) if error.startswith("bufferStalledError")]
        excused_s = excuse_s(watched, encoder)
    with capsys.disabled():
        print(f"\nWithout low latency: delay {told(delays)}")  # noqa: T201
    assert statistics.median(delays) <= PLAIN_S + excused_s
    assert now["target"] <= PLAIN_S, "so far behind it is where the viewer goes to live"
    assert stalls == []
