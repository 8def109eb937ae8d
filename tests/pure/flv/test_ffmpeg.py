"""Files of real FFmpegs read tag for tag as FFmpeg's libraries read them, and files of ours read by them."""

import json
import subprocess
from io import BytesIO
from pathlib import Path
from typing import Any

import av
import imageio_ffmpeg
import pytest

from ingest.flv import FlvWriter, Tag, TagReader, decode_metadata, read_index, scan
from ingest.rtmp.limits import DEFAULT_LIMITS
from ingest.rtmp.media import ExtendedVideo, read_audio, read_video
from ingest.rtmp.media_tags import LegacyAudio, LegacyVideo, VideoPacket
from tests.pure.flv.files import AUDIO, DATA, VIDEO, shape, tags_of
from tests.tools import require_tool

SECONDS = 3
FRAMES = (None, VideoPacket.CODED_FRAMES, VideoPacket.CODED_FRAMES_X)
BUNDLED = imageio_ffmpeg.get_ffmpeg_exe()
"""The FFmpeg that came from PyPI, newer than Debian's."""
CLIPS: dict[str, tuple[str | None, str]] = {
    "H.264 and AAC": (None, "-c:v libx264 -preset ultrafast -bf 2 -c:a aac"),
    "Sorenson and MP3": (None, "-c:v flv -c:a libmp3lame -ar 44100"),
    "newer H.264 and AAC": (BUNDLED, "-c:v libx264 -preset ultrafast -c:a aac"),
    "HEVC and Opus": (BUNDLED, "-c:v libx265 -preset ultrafast -x265-params log-level=none -c:a libopus"),
    "AV1 and FLAC": (BUNDLED, "-c:v libsvtav1 -preset 12 -c:a flac -ar 48000"),
    "VP9 and AC-3": (BUNDLED, "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -c:a ac3 -ar 48000"),
    "sound alone": (None, "-vn -c:a aac"),
}


@pytest.fixture(scope="module", params=list(CLIPS))
def clip(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With FFmpeg's own index, where there is video."""
    program, options = CLIPS[request.param]
    path = tmp_path_factory.mktemp("flv") / "clip.flv"
    picture, tone = f"testsrc2=size=160x90:rate=25:duration={SECONDS}", f"sine=sample_rate=48000:duration={SECONDS}"
    command = [program or require_tool("ffmpeg"), "-v", "error", "-y", "-f", "lavfi", "-i", picture, "-f", "lavfi"]
    command += ["-i", tone, *options.split(), "-g", "25", "-pix_fmt", "yuv420p", "-flvflags", "add_keyframe_index"]
    subprocess.run([*command, str(path)], check=True, timeout=60, capture_output=True)
    return path


def read(path: Path) -> list[Tag]:
    reader = TagReader()
    with path.open("rb") as stream:
        tags = list(reader.read(stream))
    assert not reader.is_truncated
    return tags


Packet = tuple[str, int, int, bool, bytes]
"""Kind, DTS in ms, where its tag begins, whether it is a keyframe, and its bytes."""


def packets(path: Path) -> list[Packet]:
    """As FFmpeg's libraries read them."""
    with av.open(str(path)) as container:
        return [
            (str(packet.stream.type), packet.dts or 0, packet.pos or 0, packet.is_keyframe, bytes(packet))
            for packet in container.demux()
            if packet.size and packet.stream.type in ("audio", "video")
        ]


def frames(tags: list[Tag]) -> list[Packet]:
    """The same from tags. FFmpeg's libraries leave out those that hold nothing."""
    found: list[Packet] = []
    for tag in tags:
        message = {VIDEO: read_video, AUDIO: read_audio}.get(tag.type_id, lambda _: None)(tag.payload)
        if message is None or message.packet_type not in FRAMES:
            continue
        is_video = isinstance(message, LegacyVideo | ExtendedVideo)
        body = message.body if isinstance(message, LegacyVideo | LegacyAudio) else message.tracks[0].body
        is_keyframe = message.is_keyframe if isinstance(message, LegacyVideo | ExtendedVideo) else True
        if body:
            found.append(("video" if is_video else "audio", tag.timestamp, tag.offset, is_keyframe, body))
    return found


def test_tags_are_the_packets_that_ffmpeg_reads(clip: Path) -> None:
    assert frames(read(clip)) == packets(clip)


def test_file_fed_in_pieces_gives_the_same_tags(clip: Path) -> None:
    data = clip.read_bytes()
    for size in (1, 13, 1000):
        reader = TagReader()
        assert [tag for at in range(0, len(data), size) for tag in reader.feed(data[at : at + size])] == read(clip)


def test_the_index_is_what_ffmpeg_found(clip: Path) -> None:
    """By its metadata, which are believed, and by looking through."""
    with clip.open("rb") as stream:
        index, seen = read_index(stream), scan(stream)
    found = packets(clip)
    keyframes = [(dts, pos) for kind, dts, pos, is_keyframe, _ in found if kind == "video" and is_keyframe]
    if keyframes:
        assert index.points == seen.points == keyframes
    else:
        assert [point.offset for point in seen.points] == [
            next(pos for _, dts, pos, _, _ in found if dts >= point.time_ms) for point in seen.points
        ]
        assert len(seen.points) == SECONDS + 1
    assert seen.duration_ms == max(tag.timestamp for tag in read(clip))
    assert index.duration_ms == pytest.approx(SECONDS * 1000, abs=150)
    before = index.headers_at(found[0][2])
    assert before == sorted(before)


# --- Files of ours ---


def rewritten(clip: Path, path: Path, *, finished: bool) -> Path:
    tags = read(clip)
    metadata = decode_metadata(tags[0].payload, DEFAULT_LIMITS)
    assert metadata is not None
    with path.open("w+b") as stream:
        writer = FlvWriter.begin(stream, metadata)
        for tag in tags[1:]:
            writer.write(tag.type_id, tag.timestamp, tag.payload)
        if finished:
            writer.finish()
    return path


def probe(program: str, path: Path) -> dict[str, Any]:
    """What ffprobe, or FFmpeg itself where it came without, says; a word of complaint fails."""
    command = [program, "-v", "warning", "-print_format", "json", "-show_format", "-show_streams", str(path)]
    done = subprocess.run(command, check=True, timeout=60, capture_output=True, text=True)
    assert not done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("finished", [True, False], ids=["finished", "killed"])
def test_written_file_is_read_by_ffmpeg_without_a_warning(clip: Path, tmp_path: Path, finished: bool) -> None:
    path = rewritten(clip, tmp_path / "ours.flv", finished=finished)
    assert shape(read(path))[1:] == shape(read(clip))[1:]
    assert [packet[:2] + packet[3:] for packet in packets(path)] == [
        packet[:2] + packet[3:] for packet in packets(clip)
    ]
    decoded = [BUNDLED, "-v", "warning", "-i", str(path), "-f", "null", "-"]
    done = subprocess.run(decoded, check=True, timeout=60, capture_output=True, text=True)
    assert not done.stderr
    if all(tag.payload[0] < 0x80 for tag in read(path) if tag.type_id == VIDEO):  # All that Debian's ffprobe knows.
        found = probe(require_tool("ffprobe"), path)
        assert float(found["format"]["duration"]) == pytest.approx(SECONDS, abs=0.15)
        assert found["format"]["nb_streams"] == len({packet[0] for packet in packets(path)})


def test_players_seek_by_our_index(clip: Path, tmp_path: Path) -> None:
    path = rewritten(clip, tmp_path / "ours.flv", finished=True)
    keyframes = [(dts, pos) for kind, dts, pos, is_keyframe, _ in packets(path) if kind == "video" and is_keyframe]
    for number, (dts, pos) in enumerate(keyframes):
        following = keyframes[number + 1][0] if number + 1 < len(keyframes) else dts + 500
        with av.open(str(path)) as container:
            container.seek((following - 1) * 1000)
            first = next(packet for packet in container.demux(video=0) if packet.size)
            assert (first.dts, first.pos) == (dts, pos)


def test_a_cut_file_plays_to_its_end(clip: Path, tmp_path: Path) -> None:
    """`kill -9` of the writer, in the middle of a tag."""
    data = rewritten(clip, tmp_path / "ours.flv", finished=False).read_bytes()
    path = tmp_path / "cut.flv"
    path.write_bytes(data[: tags_of(data)[-20].offset + 20])
    reader = TagReader()
    tags = list(reader.read(BytesIO(path.read_bytes())))
    assert reader.is_truncated
    assert tags[0].type_id == DATA
    whole = frames(tags)
    assert packets(path)[: len(whole)] == whole, "FFmpeg gives a cut last packet too"
    with path.open("r+b") as stream:
        writer = FlvWriter.resume(stream)
        writer.finish()
    assert packets(path) == whole
