"""The watch page goes on by itself, whatever its encoder and its network do: nobody loads it again."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.e2e.watching import EXCUSE_S, LATE, Greys, Watched, hls_port, make_greys, watching
from tests.links import Link
from tests.media import make_clip
from tests.programs import on_air
from tests.server_process import ServerProcess
from tests.tools import require_tool

pytestmark = [pytest.mark.serve, pytest.mark.browser, pytest.mark.clients, pytest.mark.timeout(120)]

HOUR_MS = 3_600_000
SIZES = {"320x180": 320, "640x360": 640}
BAD_NETWORK_S = 20
PAST_BUFFER_S = 3.0
"""More than the page has in hand."""
STREAM_BYTES_PER_S = 60_000
"""About what the clip has, with its playlists."""
SHORT_STALL_S = 0.5
"""Less than what players of low latency have in hand."""
THROTTLED = 1.5
"""Times what the stream has."""
CALM_S = 4.0


@pytest.fixture(scope="module")
def greys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require_tool("ffmpeg")
    return make_greys(tmp_path_factory.mktemp("greys") / "greys.flv")


def wait_width(watched: Watched, width: int) -> None:
    watched.page.wait_for_function(
        "width => document.getElementById('video').videoWidth === width", arg=width, timeout=30_000
    )


def test_watch_page_continues_over_changed_encoders_and_clock_jumps(
    hls_server: ServerProcess, browser: Browser, greys: Path, tmp_path: Path
) -> None:
    """One that comes back with pictures of another size, and one whose clock jumps, forward and back."""
    path = "live/goes-on"
    key = hls_server.create_keys([path])[path]
    clips = {size: make_clip(tmp_path / f"{size}.flv", seconds=6, size=size, video_kbps=300) for size in SIZES}
    with watching(browser, hls_server, path) as watched:
        watched.page.evaluate("window.isSamePage = true")
        for size, width in SIZES.items():
            with on_air(hls_server, key, clips[size]):
                wait_width(watched, width)
                watched.plays()
        with Greys(hls_server, key, greys) as encoder:
            wait_width(watched, 320)
            for jump_ms in (HOUR_MS, -HOUR_MS // 2):
                watched.plays()
                encoder.jump(jump_ms)
                watched.plays(PAST_BUFFER_S)
        assert watched.page.evaluate("window.isSamePage")
        assert [error for error in watched.page.evaluate("window.heard") if error["fatal"]] == []
        assert watched.faults == []


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


def troubles(proxy: Link) -> Iterator[None]:
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
    with Link(hls_port(server, path)) as proxy, watching(browser, server, path, hls_port=proxy.port) as watched:
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


@pytest.mark.alone
def test_a_network_that_stalls_and_has_little_room_is_not_noticed(
    hls_server: ServerProcess, browser: Browser, greys: Path
) -> None:
    path = "live/bad-network"
    key = hls_server.create_keys([path])[path]
    with Greys(hls_server, key, greys) as encoder:
        outcome = watch_through(browser, hls_server, encoder, path, BAD_NETWORK_S)
    assert outcome.faults == []
    assert any("_HLS_part=" in url for url in outcome.asked)
    assert outcome.watched_s > outcome.seconds - 1
