"""The vectors made from real encoders, and short ways to a configuration."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import av

from ingest.rtmp.codecs import AudioConfig, VideoConfig, audio_config, video_config
from ingest.rtmp.media import read_audio, read_video
from tests.pure.rtmp.wire import h

VECTORS = json.loads(Path(__file__).with_name("vectors.json").read_text())
"""name, kind (audio or video), header and frame (whole messages, frames cut short), what FFmpeg reads from them."""


def video(payload: bytes) -> VideoConfig:
    found = video_config(read_video(payload))
    assert found
    return found


def audio(payload: bytes) -> AudioConfig:
    found = audio_config(read_audio(payload))
    assert found
    return found


def vector(name: str, part: str) -> bytes:
    return h(next(each for each in VECTORS if each["name"] == name)[part])


def header_by_ffmpeg(codec: str, record: bytes) -> tuple[int, int, float | None, Fraction | None]:
    """Width, height, frames a second and pixels' aspect, from a configuration record alone."""
    context: Any = av.CodecContext.create(codec, "r")
    context.extradata = record
    context.open()
    rate = context.framerate
    return context.width, context.height, round(float(rate), 3) if rate else None, context.sample_aspect_ratio
