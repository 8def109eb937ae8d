"""Makes vectors.json: what real encoders put into FLV, and what FFmpeg's libraries read from it. Run by hand:

    .venv/bin/python -m tests.pure.rtmp.codecs.make_vectors

The FFmpeg that imageio-ffmpeg brings encodes, PyAV reads, and FFmpeg's DASH writer makes the codec string.
"""

import json
import re
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import av
import imageio_ffmpeg

from ingest.flv import TagReader

VECTORS = Path(__file__).with_name("vectors.json")
KEPT_BYTES = 96
"""Of a coded frame."""
FPS = "30000/1001"

VIDEO = {
    "x264 high": "-c:v libx264 -pix_fmt yuv420p",
    "x264 baseline": "-c:v libx264 -pix_fmt yuv420p -profile:v baseline -level 3.0",
    "x264 high 10": "-c:v libx264 -pix_fmt yuv420p10le -preset ultrafast",
    "x264 high 4:2:2": "-c:v libx264 -pix_fmt yuv422p",
    "x264 high 4:4:4": "-c:v libx264 -pix_fmt yuv444p",
    "x264 intra 4:2:2": "-c:v libx264 -pix_fmt yuv422p10le -g 1",
    "x264 grey": "-c:v libx264 -pix_fmt gray",
    "x264 interlaced": "-vf scale=320:192 -c:v libx264 -pix_fmt yuv420p -flags +ildct+ilme -x264-params tff=1",
    "x264 anamorphic": "-vf setsar=16/11 -c:v libx264 -pix_fmt yuv420p",
    "x264 odd aspect": "-vf setsar=7/5 -c:v libx264 -pix_fmt yuv420p -color_primaries bt709 -color_trc bt709",
    "x264 4K": "-vf scale=3840:2160 -c:v libx264 -pix_fmt yuv420p -preset ultrafast -frames:v 1",
    "x264 scaling lists": "-c:v libx264 -pix_fmt yuv420p"
    " -x264-params cqm=jvt:nal-hrd=vbr:vbv-maxrate=500:vbv-bufsize=500",
    "openh264": "-c:v libopenh264 -pix_fmt yuv420p -b:v 200k",
    "x265 main": "-c:v libx265 -pix_fmt yuv420p",
    "x265 main 10": "-c:v libx265 -pix_fmt yuv420p10le"
    " -color_primaries bt2020 -color_trc smpte2084 -colorspace bt2020nc",
    "x265 4:2:2 10": "-c:v libx265 -pix_fmt yuv422p10le",
    "x265 4:4:4": "-c:v libx265 -pix_fmt yuv444p",
    "x265 grey": "-c:v libx265 -pix_fmt gray",
    "x265 anamorphic": "-vf setsar=4/3 -c:v libx265 -pix_fmt yuv420p",
    "x265 scaling lists": "-c:v libx265 -pix_fmt yuv420p"
    " -x265-params scaling-list=default:hrd=1:vbv-maxrate=500:vbv-bufsize=500",
    "x265 layers": "-c:v libx265 -pix_fmt yuv420p -x265-params temporal-layers=3:bframes=4:b-pyramid=1",
    "x265 high tier": "-vf scale=1920:1080 -c:v libx265 -pix_fmt yuv420p -frames:v 2 -preset ultrafast"
    " -x265-params level-idc=5.1:high-tier=1:vbv-maxrate=120000:vbv-bufsize=120000",
    "kvazaar": "-vf scale=328:184 -c:v libkvazaar -pix_fmt yuv420p",
    "vvenc": "-c:v libvvenc -pix_fmt yuv420p10le",
    "vvenc 720p": "-vf scale=1280:720 -c:v libvvenc -pix_fmt yuv420p10le -preset faster -frames:v 2",
    "aom": "-c:v libaom-av1 -pix_fmt yuv420p -cpu-used 8 -frames:v 3",
    "aom 10 bits": "-c:v libaom-av1 -pix_fmt yuv420p10le -cpu-used 8 -frames:v 3",
    "aom 4:4:4": "-c:v libaom-av1 -pix_fmt yuv444p -cpu-used 8 -frames:v 3",
    "aom 4:2:2 12 bits": "-c:v libaom-av1 -pix_fmt yuv422p12le -cpu-used 8 -frames:v 3 -strict experimental",
    "aom grey": "-c:v libaom-av1 -pix_fmt gray -cpu-used 8 -frames:v 3",
    "aom RGB": "-c:v libaom-av1 -pix_fmt gbrp -cpu-used 8 -frames:v 3",
    "SVT-AV1": "-c:v libsvtav1 -pix_fmt yuv420p10le -preset 12",
    "SVT-AV1 1080p": "-vf scale=1920:1080 -c:v libsvtav1 -pix_fmt yuv420p -preset 12 -frames:v 2",
    "rav1e": "-c:v librav1e -pix_fmt yuv420p -speed 10 -frames:v 3",
    "VP9": "-c:v libvpx-vp9 -pix_fmt yuv420p -cpu-used 8 -deadline realtime",
    "VP9 4:4:4": "-c:v libvpx-vp9 -pix_fmt yuv444p -cpu-used 8 -deadline realtime",
    "VP9 4:4:0": "-c:v libvpx-vp9 -pix_fmt yuv440p -cpu-used 8 -deadline realtime",
    "VP9 RGB": "-c:v libvpx-vp9 -pix_fmt gbrp -cpu-used 8 -deadline realtime",
    "VP9 10 bits": "-c:v libvpx-vp9 -pix_fmt yuv420p10le -cpu-used 8 -deadline realtime",
    "VP9 4:2:2 12 bits": "-c:v libvpx-vp9 -pix_fmt yuv422p12le -cpu-used 8 -deadline realtime",
    "VP8": "-c:v libvpx -pix_fmt yuv420p -cpu-used 8 -deadline realtime",
    "Sorenson": "-c:v flv -pix_fmt yuv420p",
    "Sorenson 352x288": "-vf scale=352:288 -c:v flv -pix_fmt yuv420p",
    "Sorenson 160x120": "-vf scale=160:120 -c:v flv -pix_fmt yuv420p",
    "Sorenson 100x60": "-vf scale=100:60 -c:v flv -pix_fmt yuv420p",
    "Screen": "-c:v flashsv -pix_fmt bgr24 -frames:v 1",
    "Screen 2": "-c:v flashsv2 -pix_fmt bgr24 -frames:v 1",
}
AUDIO = {
    "AAC 48 kHz stereo": "-c:a aac -ar 48000 -ac 2",
    "AAC 44.1 kHz mono": "-c:a aac -ar 44100 -ac 1",
    "AAC 22.05 kHz stereo": "-c:a aac -ar 22050 -ac 2",
    "AAC 96 kHz 5.1": "-c:a aac -ar 96000 -ac 6",
    "AAC 7.1": "-c:a aac -ar 48000 -af aformat=channel_layouts=7.1",
    "AAC 6.1 by program config": "-c:a aac -ar 48000 -af aformat=channel_layouts=6.1",
    "Opus mono": "-c:a libopus -ac 1",
    "Opus stereo": "-c:a libopus -ac 2",
    "Opus 5.1": "-c:a libopus -af aformat=channel_layouts=5.1 -mapping_family 1",
    "Opus 24 kHz": "-c:a libopus -ar 24000 -ac 2",
    "FLAC 44.1 kHz": "-c:a flac -ar 44100 -ac 2 -sample_fmt s16",
    "FLAC 96 kHz 32 bits": "-c:a flac -ar 96000 -ac 1 -sample_fmt s32 -strict experimental",
    "FLAC 5.1": "-c:a flac -ar 48000 -ac 6",
    "AC-3 5.1": "-c:a ac3 -ar 48000 -ac 6",
    "AC-3 mono 44.1 kHz": "-c:a ac3 -ar 44100 -ac 1",
    "AC-3 stereo 32 kHz": "-c:a ac3 -ar 32000 -ac 2",
    "AC-3 quad": "-c:a ac3 -ar 48000 -af aformat=channel_layouts=quad",
    "E-AC-3 5.1": "-c:a eac3 -ar 48000 -ac 6",
    "E-AC-3 stereo 44.1 kHz": "-c:a eac3 -ar 44100 -ac 2",
    "E-AC-3 3.1": "-c:a eac3 -ar 48000 -af aformat=channel_layouts=3.1",
    "MP3 44.1 kHz": "-c:a libmp3lame -ar 44100 -ac 2",
    "MP3 48 kHz": "-c:a libmp3lame -ar 48000 -ac 2",
    "MP3 22.05 kHz mono": "-c:a libmp3lame -ar 22050 -ac 1",
    "MP3 11.025 kHz": "-c:a libmp3lame -ar 11025 -ac 2",
    "Nellymoser 8 kHz": "-c:a nellymoser -ar 8000 -ac 1",
    "Nellymoser 16 kHz": "-c:a nellymoser -ar 16000 -ac 1",
    "Nellymoser 22.05 kHz": "-c:a nellymoser -ar 22050 -ac 1",
    "PCM 16 bits": "-c:a pcm_s16le -ar 44100 -ac 2",
    "PCM 8 bits": "-c:a pcm_u8 -ar 22050 -ac 1",
    "G.711 A-law": "-c:a pcm_alaw -ar 8000 -ac 1",
    "G.711 mu-law": "-c:a pcm_mulaw -ar 8000 -ac 1",
}


def run(*arguments: str) -> None:
    subprocess.run([imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-y", *arguments], check=True, timeout=120)


def is_header(kind: int, body: bytes) -> bool:
    enhanced = body[0] >> 4 == 9 if kind == 8 else body[0] >= 0x80
    if enhanced:
        return body[0] & 15 == 0
    return body[1] == 0 and (body[0] & 15 == 7 if kind == 9 else body[0] >> 4 == 10)


def payloads(path: Path, kind: int) -> dict[str, str]:
    """The first header and the first frame."""
    found: dict[str, str] = {}
    for tag, body in ((tag.type_id, tag.payload) for tag in TagReader().feed(path.read_bytes())):
        is_frame = body[0] & 15 in (1, 3) or not (body[0] >= 0x80 if tag == 9 else body[0] >> 4 == 9)
        if tag == kind and is_header(tag, body):
            found.setdefault("header", body.hex())
        elif tag == kind and is_frame:
            found.setdefault("frame", body[:KEPT_BYTES].hex())
    return found


def codec_string(encode: list[str], folder: Path) -> str | None:
    """None for what DASH doesn't carry, or FFmpeg can't name."""
    tag = ["-tag:v", "hvc1"] if {"libx265", "libkvazaar"} & set(encode) else []
    try:
        run(*encode, *tag, "-strict", "experimental", "-f", "dash", str(folder / "m.mpd"))
    except subprocess.CalledProcessError:
        return None
    found = re.search(r'codecs="([^"]+)"', (folder / "m.mpd").read_text())
    return found.group(1) if found else None


def read(path: Path) -> dict[str, Any]:
    with av.open(str(path)) as container:
        stream: Any = container.streams[0]
        context = stream.codec_context
        for packet in container.demux(stream):
            with suppress(av.FFmpegError):  # Descriptions of channels come as packets that are no frames.
                if packet.decode():
                    break
        if stream.type == "audio":
            return {
                "profile": context.profile,
                "sample_rate": context.sample_rate,
                "channels": context.channels,
                "bit_depth": context.format.bits,
            }
        pixels = context.format
        aspect = stream.sample_aspect_ratio
        return {
            "profile": context.profile,
            "level": context.level,
            "width": context.width,
            "height": context.height,
            "pix_fmt": pixels.name,
            "bit_depth": pixels.components[0].bits,
            "sample_aspect": [aspect.numerator, aspect.denominator] if aspect else None,
        }


def make(name: str, options: str, folder: Path) -> dict[str, Any]:
    is_video = name in VIDEO
    source = f"testsrc2=size=322x182:rate={FPS}" if is_video else "sine=sample_rate=48000"
    path = folder / "clip.flv"
    if name == "VP8":  # FFmpeg has no such FLV: its packet, behind the header that Enhanced RTMP gives it.
        path = folder / "clip.webm"
    encode = ["-f", "lavfi", "-i", source, "-t", "0.3", *options.split()]
    run(*encode, str(path))
    vector: dict[str, Any] = {"name": name, "kind": "video" if is_video else "audio", "read": read(path)}
    if name == "VP8":
        with av.open(str(path)) as container:
            vector["frame"] = (b"\x91vp08" + bytes(next(container.demux())))[:KEPT_BYTES].hex()
    else:
        vector.update(payloads(path, 9 if is_video else 8))
        vector["codec_string"] = codec_string(encode, folder)
    return vector


def main() -> None:
    vectors = []
    for name, options in {**VIDEO, **AUDIO}.items():
        with tempfile.TemporaryDirectory() as folder:
            try:
                vectors.append(make(name, options, Path(folder)))
            except (subprocess.CalledProcessError, av.FFmpegError) as error:
                print(f"{name}: {error}", file=sys.stderr)  # noqa: T201
    lines = ",\n".join(json.dumps(vector) for vector in vectors)
    VECTORS.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
