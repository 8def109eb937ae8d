"""One embedded server and some clips for the tests of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser import chromium
from tests.e2e.rounds import PLANS, Clips, Rounds, play_all
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
"""Of `clip`."""


@pytest.fixture(scope="package")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of H.264 and AAC with a keyframe each second."""
    require_tool("ffmpeg")
    return make_clip(tmp_path_factory.mktemp("clip") / "clip.flv", seconds=CLIP_S)


@pytest.fixture(scope="package")
def short_clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three seconds, for what takes the whole of it."""
    require_tool("ffmpeg")
    return make_clip(tmp_path_factory.mktemp("clip") / "short.flv", seconds=3)


@pytest.fixture(scope="package")
def clips(clip: Path, tmp_path_factory: pytest.TempPathFactory) -> Clips:
    return Clips(clip, tmp_path_factory.mktemp("clips"))


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("server") / "var"
    told = {"RTMPWEB_LOG_LEVEL": "DEBUG", "RTMPWEB_LOG_FORMAT": "json"}
    told |= {"RTMPWEB_WEBHOOK_PRIVATE": "1", "RTMPWEB_RELAY_PRIVATE": "1", "RTMPWEB_HLS": "127.0.0.1:0"}
    with running(folder, **told) as started:
        yield started


@pytest.fixture(scope="package")
def hls_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Where playlists end soon after their publisher has left."""
    told = {"RTMPWEB_HLS": "127.0.0.1:0", "RTMPWEB_END_PLAYERS_S": "4"}
    with running(tmp_path_factory.mktemp("hls") / "var", **told) as started:
        yield started


@pytest.fixture(scope="package")
def keys(server: ServerProcess) -> Keys:
    """Of all streams that the tests of this folder publish to."""
    made = server.create_keys(f"live/{name}" for name in (*PLANS, *STREAMS))
    return {path.partition("/")[2]: key for path, key in made.items()}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """It ends before tests of other files begin, which run event loops themselves."""
    with chromium() as started:
        yield started


@pytest.fixture(scope="package")
def rounds(server: ServerProcess, keys: Keys, clips: Clips, tmp_path_factory: pytest.TempPathFactory) -> Rounds:
    return play_all(server, keys, clips, tmp_path_factory.mktemp("rounds"))
