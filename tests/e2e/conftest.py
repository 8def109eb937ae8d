"""One embedded server and some clips for the tests of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.clocks import CLOCKS
from tests.e2e.programs import Keys
from tests.e2e.rounds import PLANS, Rounds, play_all
from tests.media import make_clip, make_enhanced_clip
from tests.server_process import ServerProcess, running
from tests.tools import require_tool

STREAMS = (
    *("joined", "recorded", "busy", "revoked"),
    *("killed", "killed-twice"),
    *("on-the-wall", "steady", "told", "charts", "kicked"),
    *("looked-at", "unplayable", "acted-on", "looked-back"),
    *("handshakes", "gathered"),
    *("secret", "cam"),
    *("flv", "watched"),
    *("obs", "obs-dropped"),
    "taken-over",
    *CLOCKS,
)
"""Those of each file."""

CODECS = {
    "hevc-ac3": (["hevc"], ["ac3"]),
    "h264-eac3": (["h264"], ["eac3"]),
    "av1-opus": (["av1"], ["opus"]),
    "vp9-flac": (["vp9"], ["flac"]),
    "tracks": (["h264", "hevc"], ["aac", "opus"]),
}
"""{clip: its video and audio codecs}: those that need Enhanced RTMP."""


@pytest.fixture(scope="package")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight seconds of H.264 and AAC with a keyframe each second."""
    require_tool("ffmpeg")
    return make_clip(tmp_path_factory.mktemp("clip") / "clip.flv", seconds=8)


@pytest.fixture(scope="package")
def short_clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three seconds, for what takes the whole of it."""
    require_tool("ffmpeg")
    return make_clip(tmp_path_factory.mktemp("clip") / "short.flv", seconds=3)


@pytest.fixture(scope="package")
def clips(clip: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By their codecs. `sharp` has keyframes of more bytes than the server puts into a chunk, VVC's encoder takes long
    for more than the smallest picture.
    """
    folder = tmp_path_factory.mktemp("clips")
    return {
        "h264-aac": clip,
        "sharp": make_clip(folder / "sharp.flv", seconds=3, video_kbps=8_000, size="1280x720"),
        **{name: make_enhanced_clip(folder / f"{name}.flv", *codecs, seconds=5) for name, codecs in CODECS.items()},
        "vvc-aac": make_enhanced_clip(folder / "vvc.flv", ["vvc"], ["aac"], seconds=5, size="160x90"),
    }


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("server") / "var"
    with running(folder, RTMPWEB_LOG_LEVEL="DEBUG", RTMPWEB_LOG_FORMAT="json") as started:
        yield started


@pytest.fixture(scope="package")
def keys(server: ServerProcess) -> Keys:
    """Of all streams that the tests of this folder publish to."""
    made = server.create_keys(f"live/{name}" for name in (*PLANS, *STREAMS))
    return {path.partition("/")[2]: key for path, key in made.items()}


@pytest.fixture(scope="package")
def rounds(
    server: ServerProcess, keys: Keys, clips: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Rounds:
    return play_all(server, keys, clips, tmp_path_factory.mktemp("rounds"))
