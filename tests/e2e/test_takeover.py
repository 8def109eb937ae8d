"""An FFmpeg player is kept while its encoder is killed and comes back with other pictures and its clock at 0."""

import signal
from itertools import pairwise
from pathlib import Path

import pytest

from tests.e2e.programs import Keys
from tests.media import make_clip
from tests.server_process import ServerProcess, program, wait_for
from tests.tools import require_tool

pytestmark = [pytest.mark.serve, pytest.mark.clients, pytest.mark.timeout(120)]

NAME = "taken-over"
PLAYED_S = 9
LAST = "640x360"
SIZES = {"320x180": 320, LAST: 640}


def publishing(url: str, clip: Path) -> tuple[str, ...]:
    """In real time; each time the clock begins at 0."""
    return ("ffmpeg", "-v", "error", "-re", "-i", str(clip), "-c", "copy", "-f", "flv", url)


def on_air(server: ServerProcess, width: int) -> None:
    def check() -> bool:
        found = server.stream(f"live/{NAME}")
        return (found["width"], found["players"]) == (width, 1) and bool(found["video_kbps"])

    wait_for(check, timeout_s=20, what=f"pictures of {width} come, and the player is there")


@pytest.mark.slow("real programs publish and play, in real time")
def test_a_player_goes_on_with_the_encoder_that_comes_back(server: ServerProcess, keys: Keys, tmp_path: Path) -> None:
    require_tool("ffmpeg")
    clips = {size: make_clip(tmp_path / f"{size}.flv", seconds=12, size=size, video_kbps=300) for size in SIZES}
    url, out = f"{server.rtmp}/live/{NAME}", tmp_path / "played.crc"
    times = ["-t", str(PLAYED_S), "-c", "copy", "-enc_time_base", "1:1000", "-f", "framecrc", str(out)]
    decoded = ["-t", str(PLAYED_S), "-enc_time_base", "1:1000", "-f", "null", "-"]
    with program("ffmpeg", "-v", "error", "-i", url, *times, *decoded) as player:
        wait_for(lambda: server.stream(f"live/{NAME}")["players"] == 1, timeout_s=30, what="the player waits")
        for size, width in SIZES.items():
            with program(*publishing(f"{server.rtmp}/live/{keys[NAME]['key']}", clips[size])) as encoder:
                on_air(server, width)
                if size == LAST:
                    said, _ = player.communicate(timeout=40)
                encoder.send_signal(signal.SIGKILL)
    assert said == ""
    lines = [line.split(",") for line in out.read_text().splitlines() if not line.startswith("#")]
    for stream in ("0", "1"):
        decoding_ms = [int(fields[1]) for fields in lines if fields[0] == stream]
        steps = [later - earlier for earlier, later in pairwise(decoding_ms)]
        assert min(steps) > 0
        assert sum(step > 500 for step in steps) <= 1, "one absence"
        assert decoding_ms[-1] > (PLAYED_S - 1) * 1000
