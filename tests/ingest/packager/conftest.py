from pathlib import Path

import pytest

from tests.media import make_clip
from tests.tools import require_tool


@pytest.fixture(scope="session")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four seconds of H.264, with a keyframe each second, and AAC."""
    require_tool("ffmpeg")
    return make_clip(tmp_path_factory.mktemp("clips") / "clip.flv", seconds=4, video_kbps=300, size="320x180")
