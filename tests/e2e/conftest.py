"""One embedded server and one clip for the tests of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.media import make_clip
from tests.server_process import ServerProcess, running
from tests.tools import require_tool


@pytest.fixture(scope="session")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight seconds of H.264 and AAC with a keyframe each second."""
    require_tool("ffmpeg")
    require_tool("rtmpdump")
    return make_clip(tmp_path_factory.mktemp("clip") / "clip.flv", seconds=8)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("server") / "var"
    with running(folder, RTMPWEB_LOG_LEVEL="DEBUG", RTMPWEB_LOG_FORMAT="json") as started:
        yield started
