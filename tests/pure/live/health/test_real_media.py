"""What encoders make of a picture that freezes and of sound that falls silent, second by second."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from ingest.contracts import HealthRule
from ingest.flv import TagReader
from tests.pure.live.health.test_streams import Watched
from tests.tools import require_tool

ON = HealthRule(enabled=True, warning=None, bad=None, hold_s=None)
RULES = {"frozen_picture": ON, "silent_audio": ON}
SIZE = "size=640x360:rate=30"
FREEZES = f"testsrc2={SIZE},trim=end=12,tpad=stop_mode=clone:stop_duration=18"
FALLS_SILENT = "sine=frequency=440:sample_rate=48000:duration=12,apad=pad_dur=18"
BACKGROUND = f"color=c=gray:{SIZE}"
TALKS = f"{BACKGROUND}[wall];mandelbrot=size=96x96:rate=30[head];[wall][head]overlay=x=260+3*sin(3*t):y=120"
"""A head in front of a wall: most of the picture stays."""
MURMURS = "anoisesrc=amplitude=0.002:sample_rate=48000"


def play(path: Path, picture: str, sound: str, *options: str) -> Watched:
    """30 s of it as they come; the check's figures of each second."""
    require_tool("ffmpeg")
    made = ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-g", "60", *options, "-c:a", "aac", "-b:a", "96k", "-t", "30"]
    command = ["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", picture, "-f", "lavfi", "-i", sound, *made]
    subprocess.run([*command, "-f", "flv", str(path)], check=True, timeout=60)
    watched = Watched(health=RULES)
    tags = [tag for tag in TagReader().feed(path.read_bytes()) if tag.type_id in (8, 9)]
    for tag in sorted(tags, key=lambda tag: tag.timestamp):
        watched.take(tag.type_id == 9, tag.timestamp, tag.payload)
    return watched


@pytest.mark.parametrize(
    "options",
    [("-preset", "veryfast", "-b:v", "1500k"), ("-preset", "ultrafast", "-tune", "zerolatency", "-crf", "23")],
    ids=["bitrate", "quality"],
)
def test_frozen_picture_and_silent_audio_of_an_encoder_are_detected(tmp_path: Path, options: Any) -> None:
    """After 12 s; an encoder refines a still picture for some seconds more."""
    watched = play(tmp_path / "freezes.flv", FREEZES, FALLS_SILENT, *options)
    assert watched.codes == {"frozen_picture", "silent_audio"}
    assert watched.opened("frozen_picture") in range(22, 30)
    assert watched.opened("silent_audio") in range(22, 26)


def test_talking_head_and_quiet_noise_are_neither_frozen_nor_silent(tmp_path: Path) -> None:
    assert play(tmp_path / "talks.flv", TALKS, MURMURS, "-preset", "veryfast", "-crf", "28").codes == set()
