"""What real encoders send, against what FFmpeg's libraries read from the same (vectors.json); and
whatever a peer sends: nothing is raised, and no figure is impossible.

`.venv/bin/python -m tests.pure.rtmp.codecs.test_encoders` makes the vectors again.
"""

import json
import re
import subprocess
import sys
import tempfile
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import imageio_ffmpeg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.flv import TagReader
from ingest.rtmp.codecs import AudioConfig, VideoConfig, audio_config, video_config
from ingest.rtmp.codecs.config import MAX_FPS, MAX_SAMPLE_RATE, MAX_SIDE
from ingest.rtmp.media import ExtendedVideo, read_audio, read_video
from tests.pure.rtmp.wire import h
from tests.recordings import decoded, from_client
from tests.rtmp_client import decode_all
from tests.rtmpdecode import Decoded

VECTORS_FILE = Path(__file__).with_name("vectors.json")
VECTORS = json.loads(VECTORS_FILE.read_text())
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


VIDEO = [vector for vector in VECTORS if vector["kind"] == "video"]
AUDIO = [vector for vector in VECTORS if vector["kind"] == "audio"]

LEVELS = {"H.264": (10, 1), "H.265": (30, 3), "H.266": (16, 3)}
"""What FFmpeg's number counts a major and a minor version of a level as."""

NAMES = {"Rext": "Range Extensions"}
"""FFmpeg's own name of a profile: the specification's."""

CHROMA = {
    "420": "4:2:0",
    "422": "4:2:2",
    "444": "4:4:4",
    "440": "4:4:0",
    "gray": "4:0:0",
    "rgb": "4:4:4",
    "gbr": "4:4:4",
}

# FFmpeg shows the grey of H.264 as 4:2:0, and 4:4:4 in BT.709 and sRGB's transfer as RGB.
WITHOUT_CHROMA = ("x264 grey", "Screen", "Screen 2")


def ids(vectors: list[dict[str, Any]]) -> list[str]:
    return [vector["name"] for vector in vectors]


def configs(vector: dict[str, Any]) -> list[Any]:
    """What header and frame tell, as far as there are."""
    read, tell = (read_video, video_config) if vector["kind"] == "video" else (read_audio, audio_config)
    messages: list[Any] = [read(bytes.fromhex(vector[part])) for part in ("header", "frame") if part in vector]
    assert not any(message.fault for message in messages)
    return [tell(message) for message in messages]


def video_of(vector: dict[str, Any]) -> VideoConfig:
    """From the header, and what that leaves open from the first frame: as the live stream puts it together."""
    merged: VideoConfig
    merged, *rest = configs(vector)
    for later in rest:
        for field in VideoConfig.__slots__:
            if getattr(merged, field) is None:
                setattr(merged, field, getattr(later, field))
    return merged


def audio_of(vector: dict[str, Any]) -> AudioConfig:
    """From the header where it tells anything, or else from a frame."""
    first, *rest = configs(vector)
    found: AudioConfig = rest[0] if rest and (first is None or first.sample_rate is None) else first
    return found


@pytest.mark.parametrize("vector", VIDEO, ids=ids(VIDEO))
def test_video_config_of_real_encoders_is_what_ffmpeg_reads(vector: dict[str, Any]) -> None:
    read, found = vector["read"], video_of(vector)
    assert (found.width, found.height) == (read["width"], read["height"])
    assert found.bit_depth == read["bit_depth"]
    if vector["name"] not in WITHOUT_CHROMA:
        assert found.chroma == next(chroma for part, chroma in CHROMA.items() if part in read["pix_fmt"])
    assert found.profile == NAMES.get(read["profile"], read["profile"])
    if found.codec in LEVELS:
        major, minor = LEVELS[found.codec]
        level = found.level or ""
        assert int(level[0]) * major + int(level[2]) * minor == read["level"]
        assert found.fps == (None if found.codec == "H.266" or vector["name"] == "openh264" else 29.97)
        assert found.sample_aspect in (None, tuple(read["sample_aspect"] or ()))
    if found.codec == "AV1" and found.level != "any":
        level = found.level or ""
        assert (int(level[0]) - 2) * 4 + int(level[2]) == read["level"]


@pytest.mark.parametrize("vector", AUDIO, ids=ids(AUDIO))
def test_audio_config_of_real_encoders_is_what_ffmpeg_reads(vector: dict[str, Any]) -> None:
    read, found = vector["read"], audio_of(vector)
    assert (found.sample_rate, found.channels) == (read["sample_rate"], read["channels"])
    if found.codec == "AAC":
        assert found.profile == f"AAC-{read['profile']}"
    if found.codec in ("FLAC", "PCM"):
        assert found.bit_depth == read["bit_depth"]


NAMED = [vector for vector in VECTORS if vector.get("codec_string")]


@pytest.mark.parametrize("vector", NAMED, ids=ids(NAMED))
def test_codec_strings_of_real_encoders_agree_with_those_of_ffmpeg(vector: dict[str, Any]) -> None:
    """FFmpeg leaves out the last constraints of H.265, says more of AV1's colours, has no VP9 header for 4:4:0, and
    calls MP3 by MPEG-4's number."""
    named = vector["codec_string"]
    found = video_of(vector).codec_string if vector["kind"] == "video" else audio_of(vector).codec_string
    if named.startswith("hvc1."):
        assert (found or "").lower().startswith(named.lower())
    elif named.startswith("av01."):
        assert named.startswith(found or "")
        assert found
    elif named == "vp9":
        assert found is None
    else:
        assert found == {"mp4a.40.34": "mp3"}.get(named, named)


HEVC = [vector for vector in VIDEO if vector["name"].startswith(("x265", "kvazaar"))]


@pytest.mark.parametrize("vector", HEVC, ids=ids(HEVC))
def test_hevc_header_alone_is_read_as_ffmpeg_reads_it(vector: dict[str, Any]) -> None:
    header = bytes.fromhex(vector["header"])
    found = video(header)
    assert found.fps == 29.97
    assert found.sample_aspect
    read = (found.width, found.height, found.fps, Fraction(*found.sample_aspect))
    assert read == header_by_ffmpeg("hevc", header[5:])


def test_frame_rate_is_found_for_h264_and_h265_alone() -> None:
    told = {video_of(vector).codec for vector in VIDEO if video_of(vector).fps}
    assert told == {"H.264", "H.265"}


# A header's own statement of these stands in until the parameter set, or the frame, says better.
PRELIMINARY = {"H.266": ("width", "height"), "MP3": ("sample_rate", "channels")}


@pytest.mark.parametrize("vector", VECTORS, ids=ids(VECTORS))
def test_a_cut_message_tells_the_same_or_less(vector: dict[str, Any]) -> None:
    read: Any = read_video if vector["kind"] == "video" else read_audio
    tell: Any = video_config if vector["kind"] == "video" else audio_config
    for part in ("header", "frame"):
        payload = bytes.fromhex(vector.get(part, ""))
        whole = tell(read(payload))
        for size in range(1, len(payload)):
            found = tell(read(payload[:size]))
            for name in found.__slots__ if found and found.codec != "unknown" else ():
                value = getattr(found, name)
                assert value in (None, getattr(whole, name)) or name in PRELIMINARY.get(found.codec, ()), (name, size)


RECORDED = {
    "ffmpeg-publish": ("avc1.", "mp4a.40.2"),
    "ffmpeg9-publish-h264": ("avc1.", "mp4a.40.2"),
    "ffmpeg9-publish-hevc-aac": ("hvc1.1.6.L", "mp4a.40.2"),
    "ffmpeg9-publish-av1-opus": ("av01.0.", "opus"),
    "ffmpeg9-publish-vp9-flac": ("vp09.00.", "flac"),
    "ffmpeg9-publish-multitrack": ("avc1.", "mp4a.40.2"),
    "gst-rtmp2sink-publish": ("avc1.", "mp4a.40.2"),
    "obs-publish": ("avc1.", "mp4a.40.2"),
}


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_sessions_have_the_codecs_and_sizes_that_metadata_claim(name: str) -> None:
    """Every message of a whole session is read without a fault, and the headers tell what the metadata claim."""
    messages = decoded(from_client(name))
    videos = [found for each in messages if each.type_id == 9 if (found := read_video(each.payload))]
    sounds = [heard for each in messages if each.type_id == 8 if (heard := read_audio(each.payload))]
    assert len(videos) > 5
    assert len(sounds) > 5
    assert {each.fault for each in videos} | {each.fault for each in sounds} == {""}
    first = next(video_config(each) for each in videos if each.is_sequence_start)
    sound = next(audio_config(each) for each in sounds if each.is_sequence_start)
    assert first
    assert sound
    video_string, audio_string = RECORDED[name]
    assert (first.codec_string or "").startswith(video_string)
    assert sound.codec_string == audio_string
    sizes = {(config.width, config.height) for each in videos if (config := video_config(each))}
    claimed = claims(messages)
    assert (claimed["width"], claimed["height"]) in sizes
    assert sound.sample_rate == claimed.get("audiosamplerate", sound.sample_rate)
    assert sound.channels == (2 if claimed.get("stereo", sound.channels == 2) else 1)


def claims(messages: list[Decoded]) -> dict[str, Any]:
    """onMetaData."""
    for message in messages:
        values = decode_all(message.payload) if message.type_id == 18 else []
        if "onMetaData" in values:
            return dict(values[-1])
    raise AssertionError("no metadata")


def test_tracks_of_a_recorded_multitrack_session_have_ids_and_sizes() -> None:
    messages = decoded(from_client("ffmpeg9-publish-multitrack"))
    sizes = set()
    for message in messages:
        found = read_video(message.payload) if message.type_id == 9 else None
        if isinstance(found, ExtendedVideo) and found.is_sequence_start and (config := video_config(found)):
            sizes.add((found.tracks[0].track_id, config.width, config.height))
    assert sizes
    assert all(track > 0 and width and height for track, width, height in sizes)


STARTS = [
    h("1700000000"),
    h("1700000000 0164001fffe100406764001f"),
    h("90 68766331"),
    vector("x265 main", "header")[:40],
    vector("vvenc", "header")[:40],
    h("90 76766331"),
    h("90 61763031 81000c00 0a40"),
    h("91 61763031"),
    h("90 76703039"),
    h("91 76703039 82498342"),
    h("91 76703038"),
    h("12"),
    h("13"),
    h("96 00 61766331 01"),
]
SOUND_STARTS = [
    h("af00"),
    h("af00 eb"),
    h("af00 1200"),
    h("90 4f707573 4f70757348656164"),
    h("90 664c6143"),
    h("91 61632d33 0b77"),
    h("91 65632d33 0b77"),
    h("2f ff"),
    h("94 4f707573"),
    h("95 00 6d703461 01"),
    h("91 2e6d7033"),
]


@given(st.sampled_from(STARTS), st.binary(max_size=200))
def test_any_video_payload_gives_possible_figures_or_none(start: bytes, rest: bytes) -> None:
    found = video_config(read_video(start + rest))
    if found and found.width is not None and found.height is not None:
        assert 0 < found.width <= MAX_SIDE
        assert 0 < found.height <= MAX_SIDE
    assert found is None or found.fps is None or 0 <= found.fps <= MAX_FPS


@given(st.sampled_from(SOUND_STARTS), st.binary(max_size=200))
def test_any_audio_payload_gives_possible_figures_or_none(start: bytes, rest: bytes) -> None:
    found = audio_config(read_audio(start + rest))
    assert found is None or found.sample_rate is None or 0 < found.sample_rate <= MAX_SAMPLE_RATE
    assert found is None or found.channels is None or 0 < found.channels < 256


@given(st.sampled_from(VECTORS), st.data())
def test_damaged_messages_raise_nothing(each: dict[str, Any], data: st.DataObject) -> None:
    payload = bytearray.fromhex(each.get("header") or each["frame"])
    for _ in range(data.draw(st.integers(1, 8))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    if each["kind"] == "video":
        video_config(read_video(bytes(payload)))
    else:
        audio_config(read_audio(bytes(payload)))


# --- The making of the vectors, by hand ---

FRAME_BYTES = 96  # We keep the beginning of a coded frame.
SOURCES = {"video": "testsrc2=size=322x182:rate=30000/1001", "audio": "sine=sample_rate=48000"}


def run_ffmpeg(*arguments: str) -> None:
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
        run_ffmpeg(*encode, *tag, "-strict", "experimental", "-f", "dash", str(folder / "m.mpd"))
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


def make_vector(name: str, kind: str, options: str, folder: Path) -> dict[str, Any]:
    encode = ["-f", "lavfi", "-i", SOURCES[kind], "-t", "0.3", *options.split()]
    path = folder / ("clip.webm" if name == "VP8" else "clip.flv")
    run_ffmpeg(*encode, str(path))
    vector = {"name": name, "kind": kind, "options": options, "read": read_by_ffmpeg(path)}
    if name != "VP8":
        return {**vector, **payloads(path, kind), "codec_string": codec_string(encode, folder)}
    with av.open(str(path)) as container:  # FFmpeg has no such FLV, so we write the header of Enhanced RTMP.
        return {**vector, "frame": (b"\x91vp08" + bytes(next(container.demux())))[:FRAME_BYTES].hex()}


def remake_vectors() -> None:
    """Make each vector again from its name, kind and FFmpeg options.

    The FFmpeg that imageio-ffmpeg brings encodes, PyAV reads, and FFmpeg's DASH writer makes the codec string.
    """
    vectors = []
    for old in VECTORS:
        with tempfile.TemporaryDirectory() as folder:
            try:
                vectors.append(make_vector(old["name"], old["kind"], old["options"], Path(folder)))
            except (subprocess.CalledProcessError, av.FFmpegError) as error:
                print(f"{old['name']}: {error}", file=sys.stderr)  # noqa: T201
                vectors.append(old)
    VECTORS_FILE.write_text("[\n" + ",\n".join(map(json.dumps, vectors)) + "\n]\n")


if __name__ == "__main__":
    remake_vectors()
