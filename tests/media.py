"""Clips for tests, and their packets: made and read by FFmpeg's libraries, not by the project's own parsers."""

import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import av
import imageio_ffmpeg


@dataclass(frozen=True)
class Packet:
    """One coded packet as a demuxer gives it."""

    kind: str
    """'audio' or 'video'."""
    is_keyframe: bool
    data: bytes
    track: int = 0
    """Its number among the tracks of its kind."""


TONE = ("-f", "lavfi", "-i", "sine=frequency=440:sample_rate=48000")


def pattern(size: str, rate: str | int = 30) -> tuple[str, ...]:
    """An input of FFmpeg: a picture that moves."""
    return ("-f", "lavfi", "-i", f"testsrc2=size={size}:rate={rate}")


def encode(path: Path, *options: str, executable: str = "ffmpeg") -> Path:
    """Write an FLV by FFmpeg. `options`: its inputs, encoders and length."""
    command = [executable, "-nostdin", "-v", "error", "-y", *options, "-f", "flv", str(path)]
    subprocess.run(command, check=True, timeout=120)
    return path


def make_clip(
    path: Path, *, seconds: float, video_kbps: int = 800, fps: int = 30, gop: int = 30, size: str = "640x360"
) -> Path:
    """An FLV with H.264 (constant bitrate, a keyframe every `gop` frames) and AAC of 128 kbit/s."""
    rate = f"{video_kbps}k"
    video = f"-c:v libx264 -preset ultrafast -tune zerolatency -pix_fmt yuv420p -g {gop} -keyint_min {gop}"
    video += f" -sc_threshold 0 -b:v {rate} -minrate {rate} -maxrate {rate} -bufsize {rate}"
    video += f" -x264-params nal-hrd=cbr -c:a aac -b:a 128k -ac 2 -t {seconds}"
    return encode(path, *pattern(size, fps), *TONE, *video.split())


ENCODERS = {
    "h264": "libx264 -preset:{track} ultrafast",
    "hevc": "libx265 -preset:{track} ultrafast -x265-params:{track} log-level=error:bframes=0",
    "vvc": "libvvenc -preset:{track} faster",
    "av1": "libsvtav1 -preset:{track} 12",
    "vp9": "libvpx-vp9 -deadline:{track} realtime -cpu-used:{track} 8",
    "aac": "aac",
    "opus": "libopus",
    "flac": "flac -frame_size:{track} 1024",
    "ac3": "ac3",
    "eac3": "eac3",
}
"""{codec: its encoder, with options that make it fast, or its packets short}"""


def make_enhanced_clip(
    path: Path, video: Sequence[str], audio: Sequence[str], *, seconds: float, size: str = "640x360"
) -> Path:
    """An FLV of Enhanced RTMP with a track for each codec and a keyframe of all each second, by imageio's FFmpeg."""
    options = [*pattern(size), *TONE]
    for source, (kind, codecs) in enumerate((("v", video), ("a", audio))):
        for number, codec in enumerate(codecs):
            options += ["-map", str(source), f"-c:{kind}:{number}"]
            options += ENCODERS[codec].format(track=f"{kind}:{number}").split()
    options += ["-pix_fmt", "yuv420p", "-g", "30", "-t", str(seconds)]
    return encode(path, *options, executable=imageio_ffmpeg.get_ffmpeg_exe())


def read_packets(source: str, *, limit: int | None = None, timeout_s: float = 30) -> list[Packet]:
    """Return the packets of a file or URL in the container's order, at most `limit`.

    A packet that the file's end cuts is left out: players write such when they are ended. PyAV 18 raises IndexError
    when it finds a stream of data late.
    """
    found: list[Packet] = []
    with av.open(source, timeout=timeout_s) as container, suppress(IndexError):
        for packet in container.demux():
            if packet.size and not packet.is_corrupt:
                kind = packet.stream.type
                track = [stream.index for stream in container.streams if stream.type == kind].index(packet.stream.index)
                found.append(Packet(kind, packet.is_keyframe, bytes(packet), track))
            if limit is not None and len(found) >= limit:
                break
    return found


def of_kind(packets: list[Packet], kind: str) -> list[bytes]:
    """The bytes of the first track's packets, in order."""
    return [packet.data for packet in packets if (packet.kind, packet.track) == (kind, 0)]


def is_run_of(part: list[bytes], whole: list[bytes]) -> int:
    """Return the index in `whole` at which `part` stands as an unbroken run, or -1."""
    starts = range(len(whole) - len(part) + 1) if part else ()
    return next((at for at in starts if whole[at] == part[0] and whole[at : at + len(part)] == part), -1)


def assert_begins(received: list[Packet], sent: list[Packet], *, least: int = 60, who: str = "") -> None:
    """Assert that more than `least` packets of each kind came as they were sent, from the first on."""
    for kind in ("video", "audio"):
        packets = of_kind(received, kind)
        assert len(packets) > least, (who, kind)
        assert is_run_of(packets, of_kind(sent, kind)) == 0, (who, kind)
