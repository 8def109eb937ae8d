"""A watch page for ten minutes, or for HLS_SECONDS, behind a network that stalls and has little room: `make soak
ARGS="-k hls"`."""

import os
from pathlib import Path

import pytest

from tests.browser import chromium
from tests.e2e.test_hls_page import Greys, make_greys, told, watch_through
from tests.server_process import running
from tests.tools import require_tool

SECONDS = int(os.environ.get("HLS_SECONDS", "600"))
PATH = "live/bad-network"

pytestmark = [pytest.mark.soak, pytest.mark.timeout(SECONDS + 300)]


def test_watch_page_plays_for_ten_minutes_through_a_bad_network(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    require_tool("ffmpeg")
    with running(tmp_path / "var", RTMPWEB_HLS="127.0.0.1:0") as server, chromium() as browser:
        key = server.create_keys([PATH])[PATH]
        with Greys(server, key, make_greys(tmp_path / "greys.flv")) as encoder:
            outcome = watch_through(browser, server, encoder, PATH, SECONDS)
    with capsys.disabled():
        stood = f"page or encoder stood still for {outcome.waited_s:.2f} s at once at most"
        print(f"\n{outcome.seconds:.0f} s: delay {told(outcome.delays)}, {stood}")  # noqa: T201
        print("\n".join(outcome.errors))  # noqa: T201
    assert outcome.faults == []
    assert outcome.watched_s > outcome.seconds - 1
