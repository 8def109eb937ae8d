"""Clips for tests, and their packets: made and read by FFmpeg's libraries, not by the project's own parsers."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import av


@dataclass(frozen=True)
class Packet:
    """One coded packet as a demuxer gives it: 'audio' or 'video', whether it is a keyframe, and its bytes."""

    kind: str
    is_keyframe: bool
    data: bytes


def make_clip(
    path: Path, *, seconds: float, video_kbps: int = 800, fps: int = 30, gop: int = 30, size: str = "640x360"
) -> Path:
    """An FLV with H.264 (constant bitrate, a keyframe every `gop` frames) and AAC of 128 kbit/s."""
    rate = f"{video_kbps}k"
    pattern, tone = f"testsrc2=size={size}:rate={fps}", "sine=frequency=440:sample_rate=48000"
    options = f"-c:v libx264 -preset ultrafast -tune zerolatency -pix_fmt yuv420p -g {gop} -keyint_min {gop}"
    options += f" -sc_threshold 0 -b:v {rate} -minrate {rate} -maxrate {rate} -bufsize {rate}"
    options += f" -x264-params nal-hrd=cbr -c:a aac -b:a 128k -ac 2 -t {seconds} -f flv"
    inputs = ["-f", "lavfi", "-i", pattern, "-f", "lavfi", "-i", tone]
    subprocess.run(["ffmpeg", "-v", "error", "-y", *inputs, *options.split(), str(path)], check=True, timeout=120)
    return path


def read_packets(source: str, *, limit: int | None = None, timeout_s: float = 30) -> list[Packet]:
    """The packets of a file or URL in the order of the container, at most `limit` of them."""
    found: list[Packet] = []
    with av.open(source, timeout=timeout_s) as container:
        for packet in container.demux():
            if packet.size:
                found.append(Packet(packet.stream.type, packet.is_keyframe, bytes(packet)))
            if limit is not None and len(found) >= limit:
                break
    return found


def of_kind(packets: list[Packet], kind: str) -> list[bytes]:
    """The bytes of one kind's packets, in order."""
    return [packet.data for packet in packets if packet.kind == kind]


def is_run_of(part: list[bytes], whole: list[bytes]) -> int:
    """Where `part` stands in `whole` as an unbroken run, or -1."""
    if not part:
        return -1
    for start in range(len(whole) - len(part) + 1):
        if whole[start] == part[0] and whole[start : start + len(part)] == part:
            return start
    return -1
