"""The watch page goes on by itself, whatever its encoder and its network do: nobody loads it again."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.e2e.bad_network import watch_through
from tests.e2e.watching import Greys, Watched, make_greys, watching
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
