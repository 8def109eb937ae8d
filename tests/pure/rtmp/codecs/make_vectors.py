"""Make each vector of vectors.json again from its name, kind and FFmpeg options. Run by hand:

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
from ingest.rtmp.media import read_audio, read_video

VECTORS = Path(__file__).with_name("vectors.json")
FRAME_BYTES = 96  # We keep the beginning of a coded frame.
SOURCES = {"video": "testsrc2=size=322x182:rate=30000/1001", "audio": "sine=sample_rate=48000"}


def run(*arguments: str) -> None:
    subprocess.run([imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-y", *arguments], check=True, timeout=120)


def payloads(path: Path, kind: str) -> dict[str, str]:
    """The first header and the first frame."""
    type_id, read = (9, read_video) if kind == "video" else (8, read_audio)
    found: dict[str, str] = {}
    for tag in TagReader().feed(path.read_bytes()):
        message: Any = read(tag.payload) if tag.type_id == type_id else None
        if message and message.packet_type in (0, None, 1, 3):  # The header, legacy media, coded frames of both kinds.
            part = "header" if message.packet_type == 0 else "frame"
            found.setdefault(part, tag.payload[: None if part == "header" else FRAME_BYTES].hex())
    return found


def codec_string(encode: list[str], folder: Path) -> str | None:
    """The codec string, or None for media that DASH can't carry and FFmpeg can't name."""
    tag = ["-tag:v", "hvc1"] if {"libx265", "libkvazaar"} & set(encode) else []
    try:
        run(*encode, *tag, "-strict", "experimental", "-f", "dash", str(folder / "m.mpd"))
    except subprocess.CalledProcessError:
        return None
    found = re.search(r'codecs="([^"]+)"', (folder / "m.mpd").read_text())
    return found.group(1) if found else None


def read_by_ffmpeg(path: Path) -> dict[str, Any]:
    with av.open(str(path)) as container:
        stream: Any = container.streams[0]
        context = stream.codec_context
        for packet in container.demux(stream):
            with suppress(av.FFmpegError):  # Descriptions of channels come as packets that are no frames.
                if packet.decode():
                    break
        names = ("sample_rate", "channels") if stream.type == "audio" else ("level", "width", "height")
        found = {name: getattr(context, name) for name in ("profile", *names)}
        if stream.type == "audio":
            return {**found, "bit_depth": context.format.bits}
        ratio = stream.sample_aspect_ratio
        aspect = [ratio.numerator, ratio.denominator] if ratio else None
        pixels = {"pix_fmt": context.format.name, "bit_depth": context.format.components[0].bits}
        return {**found, **pixels, "sample_aspect": aspect}


def make(name: str, kind: str, options: str, folder: Path) -> dict[str, Any]:
    encode = ["-f", "lavfi", "-i", SOURCES[kind], "-t", "0.3", *options.split()]
    path = folder / ("clip.webm" if name == "VP8" else "clip.flv")
    run(*encode, str(path))
    vector = {"name": name, "kind": kind, "options": options, "read": read_by_ffmpeg(path)}
    if name != "VP8":
        return {**vector, **payloads(path, kind), "codec_string": codec_string(encode, folder)}
    with av.open(str(path)) as container:  # FFmpeg has no such FLV, so we write the header of Enhanced RTMP.
        return {**vector, "frame": (b"\x91vp08" + bytes(next(container.demux())))[:FRAME_BYTES].hex()}


def main() -> None:
    vectors = []
    for old in json.loads(VECTORS.read_text()):
        with tempfile.TemporaryDirectory() as folder:
            try:
                vectors.append(make(old["name"], old["kind"], old["options"], Path(folder)))
            except (subprocess.CalledProcessError, av.FFmpegError) as error:
                print(f"{old['name']}: {error}", file=sys.stderr)  # noqa: T201
                vectors.append(old)
    VECTORS.write_text("[\n" + ",\n".join(map(json.dumps, vectors)) + "\n]\n")


if __name__ == "__main__":
    main()
