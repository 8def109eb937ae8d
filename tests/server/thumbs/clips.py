"""Keyframes of real encoders, as live streams hold them, and what a picture of them shows."""

import io
import subprocess
from dataclasses import replace
from functools import cache
from typing import Any

import av
import imageio_ffmpeg

from ingest.flv import TagReader
from ingest.live import LiveStream
from ingest.live.gop_cache import Keyframe
from ingest.rtmp.media import ExtendedVideo, Track, read_video, write_video
from ingest.rtmp.media_tags import LegacyVideo, MultitrackType
from tests.pure.live.payloads import make_stream, publisher
from tests.pure.rtmp.media.test_media import write_legacy_video

MOST = 4 << 20

ENCODERS = {
    "H.264": "libx264 -preset ultrafast",
    "H.265": "libx265 -preset ultrafast -x265-params log-level=error",
    "H.265 10 bits": "libx265 -preset ultrafast -x265-params log-level=error -pix_fmt yuv420p10le",
    "AV1": "libsvtav1 -preset 12",
    "VP9": "libvpx-vp9 -deadline realtime -cpu-used 8",
    "Sorenson": "flv",
    "VVC": "libvvenc -preset faster -pix_fmt yuv420p10le",
}

BARS = {"grey": (191, 191, 191), "yellow": (191, 191, 0), "cyan": (0, 191, 191), "green": (0, 191, 0)}
BARS |= {"magenta": (191, 0, 191), "red": (191, 0, 0), "blue": (0, 0, 191)}
"""Of SMPTE's test picture, from the left, above: what each looks like in RGB."""


@cache
def clip(encoder: str, size: str = "640x360", options: str = "") -> tuple[bytes, ...]:
    """The video messages of an FLV of four of these pictures, by an encoder of `ENCODERS`."""
    source = ["-f", "lavfi", "-i", f"smptebars=size={size}:rate=10"]
    encode = ["-t", "0.4", "-c:v", *ENCODERS[encoder].split(), *options.split(), "-f", "flv", "-"]
    made = subprocess.run(
        [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", *source, "-pix_fmt", "yuv420p", *encode],
        check=True,
        capture_output=True,
        timeout=60,
    )
    return tuple(tag.payload for tag in TagReader().feed(made.stdout) if tag.type_id == 9)


def publish(messages: tuple[bytes, ...] | list[bytes], stream: LiveStream | None = None) -> LiveStream:
    """A stream that was sent these video messages."""
    if stream is None:
        stream = make_stream()
        stream.start(publisher(), 0.0)
    for number, payload in enumerate(messages):
        stream.video(number * 100, payload, number / 10)
    return stream


def keyframe_of(messages: tuple[bytes, ...] | list[bytes]) -> Keyframe:
    found = publish(messages).cache.keyframe(-1.0, MOST)
    assert found is not None
    return found


def with_codec_id(messages: tuple[bytes, ...], codec: int) -> list[bytes]:
    """Messages of Enhanced RTMP in the layout that AVC has: as some encoders send HEVC (12) and AV1 (13)."""
    made = []
    for message in map(read_video, messages):
        assert isinstance(message, ExtendedVideo)
        track = message.tracks[0]
        packet_type = int(not message.is_sequence_start)
        legacy = LegacyVideo(message.frame_type, codec, packet_type, track.composition_time_ms, body=track.body)
        made.append(write_legacy_video(legacy))
    return made


def with_fourcc(messages: tuple[bytes, ...], fourcc: bytes) -> list[bytes]:
    """Messages with a codec id in the enhanced form."""
    made = []
    for message in map(read_video, messages):
        assert isinstance(message, LegacyVideo)
        if message.packet_type in (0, 1):
            track = Track(fourcc, message.body, composition_time_ms=message.composition_time_ms)
            made.append(write_video(ExtendedVideo(message.packet_type or 0, (track,), frame_type=message.frame_type)))
    return made


def as_tracks(messages: list[bytes], others: list[bytes]) -> list[bytes]:
    """Two streams of messages as tracks 3 and 5 of one."""
    made = []
    for first, second in zip(map(read_video, messages), map(read_video, others), strict=True):
        assert isinstance(first, ExtendedVideo)
        assert isinstance(second, ExtendedVideo)
        tracks = (replace(second.tracks[0], track_id=5), replace(first.tracks[0], track_id=3))
        made.append(write_video(replace(first, tracks=tracks, multitrack=MultitrackType.MANY_TRACKS_MANY_CODECS)))
    return made


def vp8() -> list[bytes]:
    """FFmpeg has no FLV with VP8: an encoder's packet, behind the header that Enhanced RTMP gives it."""
    context: Any = av.CodecContext.create("libvpx", "w")
    context.width, context.height, context.pix_fmt, context.framerate = 640, 360, "yuv420p", 10
    with av.open("smptebars=size=640x360:rate=10", format="lavfi") as source:
        frame = next(source.decode(video=0)).reformat(format="yuv420p")
    packets = [*context.encode(frame), *context.encode(None)]
    return [write_video(ExtendedVideo(1, (Track(b"vp08", bytes(packets[0])),)))]


def picture(image: bytes) -> Any:
    """A WebP file's pixels."""
    container: Any
    with av.open(io.BytesIO(image)) as container:
        return next(container.decode(video=0)).to_ndarray(format="rgb24")


def bars_of(image: bytes) -> list[tuple[int, ...]]:
    """The colour in the middle of each bar."""
    pixels = picture(image)
    height, width, _ = pixels.shape
    return [
        tuple(int(value) for value in pixels[height // 3, width * (2 * number + 1) // (2 * len(BARS))])
        for number in range(len(BARS))
    ]


def shows_bars(image: bytes) -> bool:
    """Whether each bar is of its colour, as far as coding twice leaves it."""
    return all(
        abs(one - other) <= 8
        for found, right in zip(bars_of(image), BARS.values(), strict=True)
        for one, other in zip(found, right, strict=True)
    )
