"""What the publishers send: 1080p30 with a keyframe every 2 s, AAC of 128 kbit/s: 73 messages a second.

Made by FFmpeg on first use and kept as FLV; without FFmpeg, filler of the same sizes.
"""

import os
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import imageio_ffmpeg

from ingest.flv import TagReader
from ingest.rtmp import MessageType

SECONDS = 10
FPS = 30
GOP_S = 2
AUDIO_KBPS = 128
AUDIO_RATE = 44_100
AUDIO_SAMPLES = 1024
"""In one AAC frame."""

AVC_HEADER = bytes.fromhex("17000000000142c01effe100096742c01e8c8d40501ee001000468ce3c80")
AAC_HEADER = bytes.fromhex("af001210")


@dataclass(frozen=True, slots=True)
class Media:
    """One audio or video message."""

    type_id: int
    timestamp: int
    """ms from the clip's beginning."""
    payload: bytes

    @property
    def is_header(self) -> bool:
        """A sequence header: sent once, not again when the clip is repeated."""
        return self.payload[1] == 0


@dataclass(frozen=True, eq=False, slots=True)
class Clip:
    headers: list[Media]
    frames: list[Media]
    """In the order of sending."""
    length_ms: int
    source: str
    """"FFmpeg" or "synthetic"."""

    @property
    def kbps(self) -> float:
        return sum(len(frame.payload) for frame in self.frames) * 8 / self.length_ms


@cache
def clip(mbps: float) -> Clip:
    """The clip of that bitrate, from the cache folder, FFmpeg or else filler."""
    path = clip_file(mbps)
    return from_flv(path.read_bytes()) if path is not None else synthetic(mbps)


def clip_file(mbps: float) -> Path | None:
    """The same as a file; None without FFmpeg."""
    path = cache_folder() / f"clip-{mbps:g}mbps.flv"
    return path if path.exists() or _made(path, mbps) else None


def cache_folder() -> Path:
    """Below the data folder; clips stay there between runs."""
    return Path(os.environ.get("RTMPWEB_DATA_DIR") or Path(__file__).resolve().parents[2] / "var") / "bench"


def _made(path: Path, mbps: float) -> bool:
    """Whether FFmpeg was there to write the clip. A constant bitrate, kept up by filler where the picture is simple."""
    try:
        ffmpeg = imageio_ffmpeg.get_ffmpeg_exe()
    except RuntimeError:
        return False
    rate = f"{_video_kbps(mbps)}k"
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}.flv")
    command = [
        *(ffmpeg, "-hide_banner", "-loglevel", "error", "-nostdin", "-y"),
        *("-f", "lavfi", "-i", f"testsrc2=size=1920x1080:rate={FPS}"),
        *("-f", "lavfi", "-i", f"sine=frequency=440:sample_rate={AUDIO_RATE}"),
        *("-t", str(SECONDS), "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-bf", "0"),
        *("-b:v", rate, "-minrate", rate, "-maxrate", rate, "-bufsize", rate, "-x264-params", "nal-hrd=cbr"),
        *("-g", str(FPS * GOP_S), "-keyint_min", str(FPS * GOP_S), "-sc_threshold", "0"),
        *("-c:a", "aac", "-b:a", f"{AUDIO_KBPS}k", "-ac", "2", "-f", "flv", str(partial)),
    ]
    try:
        subprocess.run(command, check=True)
        partial.rename(path)
    finally:
        partial.unlink(missing_ok=True)
    return True


def _video_kbps(mbps: float) -> int:
    return round(mbps * 1000) - AUDIO_KBPS


def from_flv(data: bytes) -> Clip:
    """The audio and video tags of an FLV file; ends of sequences and script data are left out."""
    media = [
        Media(tag.type_id, tag.timestamp, tag.payload)
        for tag in TagReader().feed(data)
        if tag.type_id in (MessageType.AUDIO, MessageType.VIDEO) and len(tag.payload) > 1 and tag.payload[1] <= 1
    ]
    frames = [item for item in media if not item.is_header]
    length_ms = frames[-1].timestamp + 1000 // FPS
    return Clip([item for item in media if item.is_header], frames, length_ms, "FFmpeg")


def synthetic(mbps: float, seconds: int = GOP_S) -> Clip:
    """Filler behind real FLV headers: keyframes of four times an inter frame's size, audio as FFmpeg's."""
    count = FPS * seconds
    keyframes = count // (FPS * GOP_S)
    inter_bytes = round(_video_kbps(mbps) * 125 * seconds / (count + 3 * keyframes))
    audio_bytes = round(AUDIO_KBPS * 1000 / 8 * AUDIO_SAMPLES / AUDIO_RATE)
    frames = []
    for number in range(count):
        is_key = number % (FPS * GOP_S) == 0
        head = b"\x17\x01\x00\x00\x00" if is_key else b"\x27\x01\x00\x00\x00"
        size = inter_bytes * 4 if is_key else inter_bytes
        frames.append(Media(MessageType.VIDEO, number * 1000 // FPS, head + bytes(size - len(head))))
    for number in range(seconds * AUDIO_RATE // AUDIO_SAMPLES):
        timestamp = number * AUDIO_SAMPLES * 1000 // AUDIO_RATE
        frames.append(Media(MessageType.AUDIO, timestamp, b"\xaf\x01" + bytes(audio_bytes - 2)))
    frames.sort(key=lambda frame: frame.timestamp)
    headers = [Media(MessageType.VIDEO, 0, AVC_HEADER), Media(MessageType.AUDIO, 0, AAC_HEADER)]
    return Clip(headers, frames, seconds * 1000, "synthetic")
