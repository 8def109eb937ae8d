"""Clips that are made once for all tests of the packager."""

from pathlib import Path

import pytest

from tests.media import make_clip
from tests.tools import require_tool


@pytest.fixture(scope="session")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four seconds of H.264, with a keyframe each second, and AAC."""
    require_tool("ffmpeg")
    return make_clip(tmp_path_factory.mktemp("clips") / "clip.flv", seconds=4, video_kbps=300, size="320x180")


@pytest.fixture(scope="session")
def larger_clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same in another size."""
    require_tool("ffmpeg")
    return make_clip(tmp_path_factory.mktemp("clips") / "larger.flv", seconds=4, video_kbps=400, size="480x270")
