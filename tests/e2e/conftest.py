"""One embedded server and some clips for the tests of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser import chromium
from tests.media import make_clip
from tests.programs import Keys
from tests.server_process import ServerProcess, running
from tests.tools import require_tool

STREAMS = (
    *("joined", "recorded", "busy", "revoked"),
    *("killed", "killed-twice"),
    *("killed-on-the-wall", "stopped-on-the-wall"),
    *("on-the-wall", "steady", "told"),
    *("looked-at", "unplayable", "acted-on", "looked-back", "pushed"),
    *("handshakes", "gathered", "secret", "cam", "flv", "watched", "obs", "obs-dropped", "taken-over"),
)
CLIP_S = 8


@pytest.fixture(scope="package")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`CLIP_S` of H.264 and AAC with a keyframe each second."""
    require_tool("ffmpeg")
    return make_clip(tmp_path_factory.mktemp("clip") / "clip.flv", seconds=CLIP_S)


@pytest.fixture(scope="package")
def short_clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three seconds, for tests that send the whole clip."""
    require_tool("ffmpeg")
    return make_clip(tmp_path_factory.mktemp("clip") / "short.flv", seconds=3)


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    options = {"LOG_LEVEL": "DEBUG", "LOG_FORMAT": "json", "HLS": "127.0.0.1:0"}
    options |= {"WEBHOOK_PRIVATE": "1", "RELAY_PRIVATE": "1"}
    environment = {f"RTMPWEB_{name}": value for name, value in options.items()}
    with running(tmp_path_factory.mktemp("server") / "var", **environment) as started:
        yield started


@pytest.fixture(scope="package")
def hls_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Its playlists end soon after their publisher has left."""
    folder = tmp_path_factory.mktemp("hls") / "var"
    with running(folder, RTMPWEB_HLS="127.0.0.1:0", RTMPWEB_END_PLAYERS_S="4") as started:
        yield started


@pytest.fixture(scope="package")
def keys(server: ServerProcess) -> Keys:
    made = server.create_keys(f"live/{name}" for name in STREAMS)
    return {path.partition("/")[2]: key for path, key in made.items()}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """It ends before tests of other files begin, which run event loops themselves."""
    with chromium() as started:
        yield started
