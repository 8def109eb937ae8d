"""What encoders publish comes out as it was: each packet, and when it is decoded and shown."""

import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import av
import pytest

from ingest.live.message import Kind
from tests.media import make_enhanced_clip
from tests.pure.hls.feeding import Fed, Message, enhanced, make_flv, messages_of
from tests.pure.hls.test_playlists import check_all, one, parts_of
from tests.tools import require_tool


def only(messages: Iterable[Message], kind: Kind) -> list[Message]:
    return [message for message in messages if message[0] == kind]


@dataclass(frozen=True)
class Timed:
    """A packet with its times in ms."""

    kind: str
    decoded: float
    shown: float
    data: bytes
    is_keyframe: bool
    track: int = 0


def read_timed(path: Path) -> list[Timed]:
    """By libav, in the order of decoding within each track."""
    found = []
    with av.open(str(path)) as container:
        for packet in container.demux():
            if packet.size and packet.dts is not None and packet.pts is not None and packet.time_base is not None:
                kind = packet.stream.type
                track = [each.index for each in container.streams if each.type == kind].index(packet.stream.index)
                times = (float(packet.dts * packet.time_base * 1000), float(packet.pts * packet.time_base * 1000))
                found.append(Timed(kind, *times, bytes(packet), packet.is_keyframe, track))
    return found


def track_of(packets: Iterable[Timed], kind: str, track: int = 0) -> list[Timed]:
    return [packet for packet in packets if (packet.kind, packet.track) == (kind, track)]


TEMPORAL_DELIMITER = b"\x12\x00"
"""Of AV1, which MP4 is without."""


def assert_same(found: Sequence[Timed], sent: Sequence[Timed], *, shift_ms: float = 0.0) -> None:
    """The same packets, bytes and times, within a millisecond."""
    assert len(found) == len(sent)
    for after, before in zip(found, sent, strict=True):
        assert after.data.removeprefix(TEMPORAL_DELIMITER) == before.data.removeprefix(TEMPORAL_DELIMITER)
        assert abs(after.decoded - before.decoded - shift_ms) <= 1.01, (after.decoded, before.decoded)
        assert abs(after.shown - before.shown - shift_ms) <= 1.01, (after.shown, before.shown)
        assert after.is_keyframe == before.is_keyframe


H264 = "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -g 60 -sc_threshold 0"
LEGACY = {
    "B-frames, AAC of 44.1 kHz": f"{H264.replace('ultrafast', 'veryfast')} -bf 3 -c:a aac -ar 44100 -t 6.5",
    "MP3": f"{H264} -bf 0 -c:a libmp3lame -ar 44100 -t 5",
    "MP3 of 22.05 kHz": f"{H264} -bf 0 -c:a libmp3lame -ar 22050 -t 5",
    "no audio": f"{H264} -an -t 5",
    "no video": "-vn -c:a aac -t 5",
}


@pytest.mark.parametrize("name", list(LEGACY))
def test_published_packets_come_out_with_their_times(name: str, tmp_path: Path) -> None:
    clip = make_flv(tmp_path / "clip.flv", LEGACY[name])
    fed = Fed().begin().feed(messages_of(clip)).end()
    check_all(fed)
    (rendition,) = fed.packaging.renditions
    found = read_timed(fed.file(tmp_path / "out.mp4", rendition))
    sent = read_timed(clip)
    assert {packet.kind for packet in found} == {packet.kind for packet in sent}
    for kind in ("video", "audio"):
        assert_same(track_of(found, kind), track_of(sent, kind))
    assert fed.packaging.left_out.sentences == []


ENHANCED = {
    "HEVC and Opus": (["hevc"], ["opus"], ("hvc1.", "Opus")),
    "AV1 and FLAC": (["av1"], ["flac"], ("av01.", "fLaC")),
    "VP9 and AC-3": (["vp9"], ["ac3"], ("vp09.", "ac-3")),
    "H.264 and E-AC-3": (["h264"], ["eac3"], ("avc1.", "ec-3")),
}


@pytest.mark.parametrize("name", list(ENHANCED))
def test_enhanced_codecs_come_out(name: str, tmp_path: Path) -> None:
    video, audio, strings = ENHANCED[name]
    messages = enhanced(tmp_path / "clip.flv", video, audio)
    fed = Fed().begin().feed(messages).end()
    assert fed.packaging.left_out.sentences == []
    check_all(fed)
    assert one(r"^#EXT-X-TARGETDURATION:(\d+)$", fed.text()) == 2
    found, sent = read_timed(fed.file(tmp_path / "out.mp4")), read_timed(tmp_path / "clip.flv")
    for kind in ("video", "audio"):
        assert_same(track_of(found, kind), track_of(sent, kind))
    multivariant = fed.packaging.multivariant()
    codecs = multivariant.split('CODECS="')[1].split('"')[0].split(",")
    assert [codec[: len(string)] for codec, string in zip(codecs, strings, strict=True)] == list(strings)
    assert "RESOLUTION=320x180,FRAME-RATE=30.000" in multivariant


def test_ffprobe_finds_the_hashes_of_what_was_published(tmp_path: Path) -> None:
    clip = make_flv(tmp_path / "clip.flv", f"{H264} -bf 2 -c:a aac -t 4")
    fed = Fed().begin().feed(messages_of(clip)).end()

    def hashes(path: Path, kind: str) -> list[str]:
        show = ["-show_packets", "-show_data_hash", "MD5", "-show_entries", "packet=data_hash", "-of", "csv=p=0"]
        command = [require_tool("ffprobe"), "-v", "error", "-select_streams", f"{kind}:0", *show, str(path)]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.split()

    out = fed.file(tmp_path / "out.mp4")
    for kind in ("v", "a"):
        assert len(hashes(out, kind)) > 90
        assert hashes(out, kind) == hashes(clip, kind)


def test_several_tracks_are_renditions_with_the_main_audio_shared(tmp_path: Path) -> None:
    clip = make_enhanced_clip(
        tmp_path / "clip.flv", ["h264", "hevc"], ["aac", "opus", "aac"], seconds=5, size="320x180"
    )
    fed = Fed().begin().feed(messages_of(clip)).end()
    check_all(fed)
    assert list(fed.packaging.renditions) == ["v0", "v1", "a1", "a2"]
    sent = read_timed(clip)
    for name, tracks in {"v0": (0, 0), "v1": (1, 0), "a1": (None, 1), "a2": (None, 2)}.items():
        found = read_timed(fed.file(tmp_path / f"{name}.mp4", name))
        for kind, track in zip(("video", "audio"), tracks, strict=True):
            if track is not None:
                assert_same(track_of(found, kind), track_of(sent, kind, track))
    counts = {name: list(kept) for name, kept in fed.kept.items()}
    assert len({tuple(msns) for msns in counts.values()}) == 1, counts
    for name in ("v1", "a1", "a2"):
        for ours, main in zip(fed.rendition(name).segments, fed.rendition("v0").segments, strict=True):
            assert abs(ours.start - main.start) < 0.06
    multivariant = fed.packaging.multivariant("viewer=x")
    assert multivariant.count("#EXT-X-STREAM-INF:") == 2
    assert 'NAME="Track 1",DEFAULT=YES,AUTOSELECT=YES,CHANNELS="1"\n' in multivariant
    assert 'NAME="Track 2",DEFAULT=NO,AUTOSELECT=YES,CHANNELS="1",URI="a1.m3u8?viewer=x"' in multivariant
    assert "\nv1.m3u8?viewer=x\n" in multivariant


def test_the_playlist_can_be_served_soon_where_the_keyframes_are_known(tmp_path: Path) -> None:
    messages = messages_of(make_flv(tmp_path / "clip.flv", f"{H264} -bf 0 -c:a aac -t 4"))
    assert (Fed().begin(gop_s=2.0).feed(messages).ready_ms or 0) < 700
    unknown = Fed().begin().feed(messages)
    assert 1900 <= (unknown.ready_ms or 0) < 2200
    assert one(r"^#EXT-X-TARGETDURATION:(\d+)$", unknown.text()) == 2


def test_stream_of_one_frame_a_second_has_one_part_per_frame(tmp_path: Path) -> None:
    options = "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -g 2 -c:a aac -t 9"
    clip = make_flv(tmp_path / "clip.flv", options, rate="1")
    fed = Fed().begin().feed(messages_of(clip)).end()
    check_all(fed)
    assert one(r"PART-TARGET=([\d.]+)", fed.text()) == pytest.approx(1.001)
    assert parts_of(fed.text())[-3] == [(1.0, True), (1.0, False)]
    found, sent = read_timed(fed.file(tmp_path / "out.mp4")), read_timed(clip)
    assert_same(track_of(found, "video"), track_of(sent, "video"))


@pytest.mark.parametrize("rate", ["24000/1001", "25", "30000/1001", "50", "60"])
def test_parts_are_as_long_as_can_be_at_any_frame_rate(rate: str, tmp_path: Path) -> None:
    options = "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -g 50 -sc_threshold 0 -an -t 5"
    messages = messages_of(make_flv(tmp_path / "clip.flv", options, rate=rate))
    fed = Fed().begin().feed(messages)
    check_all(fed)
    assert 0.26 < one(r"PART-TARGET=([\d.]+)", fed.text()) < 0.305
    numerator, _, denominator = rate.partition("/")
    fps = float(fed.packaging.multivariant().split("FRAME-RATE=")[1].split(",")[0])
    assert fps == pytest.approx(int(numerator) / int(denominator or 1), abs=0.02)


def test_negative_composition_times_still_give_valid_parts(clip: list[Message]) -> None:
    """A negative composition time, which MP4 of this kind has no room for."""
    early = [
        (kind, at, payload[:2] + b"\xff\xff\xf0" + payload[5:] if kind == "video" and at else payload)
        for kind, at, payload in clip
    ]
    fed = Fed().begin(gop_s=1.0).feed(early).end()
    check_all(fed)
    assert sum(len(segment.parts) for segment in fed.found["v0"].values()) == 21


def test_audio_alone_has_segments_of_the_target(tmp_path: Path) -> None:
    fed = Fed().begin().feed(only(messages_of(make_flv(tmp_path / "clip.flv", "-vn -c:a aac -t 9")), "audio"))
    check_all(fed)
    assert list(fed.packaging.renditions) == ["a0"]
    assert [round(segment.duration, 2) for segment in fed.rendition("a0").segments] == [1.92, 1.92, 1.92, 1.92]
    assert "RESOLUTION" not in fed.packaging.multivariant()
