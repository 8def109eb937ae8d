"""MP4 files that are made of FLV: read by FFmpeg's libraries and by GStreamer, which have to find in them what they, or
the tables of the formats, find in the FLV."""

import subprocess
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import av
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.flv import FlvError
from ingest.mp4 import frames as frames_module
from ingest.mp4.frames import Frames, scan_frames
from ingest.mp4.limits import Mp4Limits, Unplayable
from ingest.mp4.movie import movie_head
from ingest.rtmp.limits import DEFAULT_LIMITS, Limits
from ingest.rtmp.media import read_audio, read_video
from tests.media import make_enhanced_clip
from tests.pure.flv.files import AAC_HEADER, AUDIO, AVC_HEADER, HEADER, INTER, KEY, SOUND, VIDEO, Tags, media, tag
from tests.tools import require_tool

LIMITS = Mp4Limits()


def frames_of(stream: BinaryIO, limits: Mp4Limits = LIMITS) -> Frames:
    return scan_frames(stream, DEFAULT_LIMITS, limits)


def movie(flv: bytes, limits: Mp4Limits = LIMITS) -> bytes:
    frames = frames_of(BytesIO(flv), limits)
    return movie_head(frames) + flv[: frames.end]


def file_of(tags: Sequence[tuple[int, int, bytes]]) -> bytes:
    return HEADER + b"".join(tag(*item) for item in tags)


Packets = dict[tuple[str, int], list[tuple[float, float, bool, bytes]]]
"""Of each track, by kind and number: DTS and PTS in ms, whether it is a keyframe, and the bytes."""


def packets(source: Any) -> Packets:
    found: Packets = defaultdict(list)
    with av.open(source) as container:
        kinds = [stream.type for stream in container.streams]
        for packet in container.demux():
            if packet.size and packet.stream.type in ("audio", "video"):
                number = kinds[: packet.stream.index].count(packet.stream.type)
                scale = 1000 * packet.time_base
                times = float((packet.dts or 0) * scale), float((packet.pts or 0) * scale)
                found[packet.stream.type, number].append((*times, packet.is_keyframe, bytes(packet)))
    return dict(found)


def check_same(flv: Packets, mp4: Packets, *, without: Sequence[tuple[str, int]] = ()) -> None:
    assert mp4.keys() == flv.keys() - set(without)
    for track, wanted in mp4.items():
        got = flv[track]
        assert [item[2:] for item in wanted] == [item[2:] for item in got]
        pairs = list(zip(wanted, got, strict=True))
        assert max(abs(ours[0] - theirs[0]) for ours, theirs in pairs) <= 1, (track, "DTS")
        assert max(abs(ours[1] - theirs[1]) for ours, theirs in pairs) <= 1, (track, "PTS")


CLIPS = {
    "H.264 with B-frames, AAC": "-c:v libx264 -preset veryfast -bf 3 -c:a aac -ar 44100",
    "MP3": "-c:v libx264 -preset ultrafast -c:a libmp3lame -ar 22050",
    "sound alone": "-vn -c:a aac",
    "picture alone": "-an -c:v libx264 -preset veryfast -bf 2",
}


@pytest.mark.parametrize("name", CLIPS)
def test_ffmpeg_finds_the_same_packets_in_flv_and_mp4(name: str, tmp_path: Path) -> None:
    path = tmp_path / "clip.flv"
    command = [require_tool("ffmpeg"), "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=160x90:rate=25"]
    command += ["-f", "lavfi", "-i", "sine=sample_rate=48000", *CLIPS[name].split(), "-t", "3", "-g", "25", str(path)]
    subprocess.run(command, check=True, timeout=60, capture_output=True)
    check_same(packets(str(path)), packets(BytesIO(movie(path.read_bytes()))))


def test_frames_of_the_usual_codecs_are_told_by_their_first_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Taking each message apart would make an index many times slower."""
    parsed: list[int] = []

    def counted(take: Callable[[bytes, Limits], Any]) -> Callable[[bytes, Limits], Any]:
        def read(payload: bytes, limits: Limits) -> Any:
            parsed.append(len(payload))
            return take(payload, limits)

        return read

    monkeypatch.setattr(frames_module, "read_video", counted(read_video))
    monkeypatch.setattr(frames_module, "read_audio", counted(read_audio))
    frames = frames_of(BytesIO(file_of(media(3))))
    assert [len(track.offsets) for track in frames.tracks] == [30, 30]
    assert len(parsed) == 4, "the header and the first frame of each track"


ENHANCED = [
    (["hevc"], ["opus"]),
    (["av1"], ["flac"]),
    (["vp9"], ["ac3"]),
    (["h264"], ["aac", "eac3", "opus"]),
    (["h264", "hevc"], ["aac"]),
]


@pytest.mark.parametrize(("video", "audio"), ENHANCED, ids=lambda codecs: "+".join(codecs))
def test_codecs_and_tracks_of_enhanced_rtmp(video: list[str], audio: list[str], tmp_path: Path) -> None:
    """Of several video tracks the first."""
    path = make_enhanced_clip(tmp_path / "clip.flv", video, audio, seconds=2, size="160x90")
    made = tmp_path / "clip.mp4"
    made.write_bytes(movie(path.read_bytes()))
    without = [("video", number) for number in range(1, len(video))]
    check_same(packets(str(path)), packets(str(made)), without=without)
    with av.open(str(made)) as container:
        names = [stream.codec_context.name.removeprefix("lib").removesuffix("float") for stream in container.streams]
        enabled = [bool(stream.disposition & 1) for stream in container.streams if stream.type == "audio"]
    assert [name.replace("dav1d", "av1") for name in names] == [video[0], *audio]
    assert enabled == [True] + [False] * (len(audio) - 1)
    done = subprocess.run(
        [require_tool("ffprobe"), "-v", "warning", "-show_streams", str(made)], capture_output=True, check=True
    )
    assert done.stderr == b""


def test_gstreamer_reads_the_movie_to_its_end(tmp_path: Path) -> None:
    path = make_enhanced_clip(tmp_path / "clip.flv", ["h264"], ["aac"], seconds=2, size="160x90")
    made = tmp_path / "clip.mp4"
    made.write_bytes(movie(path.read_bytes()))
    line = f"filesrc location={made} ! qtdemux name=in in.video_0 ! queue ! fakesink in.audio_0 ! queue ! fakesink"
    done = subprocess.run(
        [require_tool("gst-launch-1.0"), *line.split()], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "ERROR" not in done.stdout + done.stderr


OTHER_AVC = AVC_HEADER.replace(b"\x42\xc0\x1e", b"\x42\xc0\x1f")


def boxes(data: bytes, at: int = 0, end: int | None = None) -> dict[bytes, bytes]:
    """By the way to each, their names joined by dots; of several alike the last."""
    found: dict[bytes, bytes] = {}
    end = len(data) if end is None else end
    while at + 8 <= end:
        size, name, head = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8], 8
        if size == 1:
            size, head = int.from_bytes(data[at + 8 : at + 16], "big"), 16
        assert size >= head
        found[name] = data[at + head : at + size]
        if name in (b"moov", b"trak", b"mdia", b"minf", b"stbl"):
            found |= boxes(data, at + head, at + size)
        at += size
    return found


def test_a_configuration_that_changes_is_another_sample_description() -> None:
    """The same header again is not; one that comes back is the former."""
    group = [(VIDEO, 0, KEY), (VIDEO, 40, INTER)]
    headers = [AVC_HEADER, AVC_HEADER, OTHER_AVC, AVC_HEADER]
    tags: Tags = []
    for number, header in enumerate(headers):
        tags += [(VIDEO, number * 80, header), *((VIDEO, number * 80 + at, payload) for _, at, payload in group)]
    data = movie(file_of(tags))
    found = boxes(data)
    assert found[b"stsd"].count(b"avcC") == 2
    entries = found[b"stsc"][8:]
    rows = [[int.from_bytes(entries[at + 4 * k : at + 4 * k + 4], "big") for k in range(3)] for at in (0, 12, 24)]
    assert rows == [[1, 1, 1], [5, 1, 2], [7, 1, 1]]
    assert [item[3] for item in packets(BytesIO(data))["video", 0]] == [KEY[5:], INTER[5:]] * 4


def times_of(tags: Tags, kind: str = "video") -> list[float]:
    return [item[0] for item in packets(BytesIO(movie(file_of(tags))))[kind, 0]]


def test_times_go_on_where_an_encoder_begins_again_and_where_they_wrap() -> None:
    again = [*media(2, start=60_000), *media(2)]
    times = times_of(again)
    assert times[:20] == [number * 100 for number in range(20)]
    assert times == sorted(times)
    assert times[-1] - times[20] == pytest.approx(1900, abs=1)
    wrapping = times_of(media(2, start=2**32 - 1000))
    assert wrapping == [number * 100 for number in range(20)]


def test_gap_in_the_sound_is_kept() -> None:
    frames = [(AUDIO, at, SOUND) for at in (0, 23, 46, 70, 93, 1000, 1023, 1046, 1070, 1093, 1116, 1139)]
    frames += [(AUDIO, 1162 + round(number * 1024000 / 44100), SOUND) for number in range(40)]
    times = times_of([(AUDIO, 0, bytes.fromhex("af001210")), *frames], "audio")
    assert max(abs(found - at) for found, (_, at, _) in zip(times, frames, strict=True)) <= 1


def test_sound_with_irregular_times_keeps_them() -> None:
    frames = [(AUDIO, number * 40 + number * 7 % 5 * 8, SOUND) for number in range(100)]
    times = times_of([(AUDIO, 0, AAC_HEADER), *frames], "audio")
    assert times == [at for _, at, _ in frames]


def test_negative_composition_times_are_kept() -> None:
    def composed(payload: bytes, time: int) -> bytes:
        return payload[:2] + time.to_bytes(3, "big", signed=True) + payload[5:]

    group = [(KEY, 0), (INTER, 80), (INTER, -40), (INTER, -40)]
    tags = [(VIDEO, 0, AVC_HEADER), (AUDIO, 0, AAC_HEADER)]
    for number in range(20):
        payload, composition = group[number % 4]
        tags += [(VIDEO, number * 40, composed(payload, composition)), (AUDIO, number * 40, SOUND)]
    found = packets(BytesIO(movie(file_of(tags))))
    shown = [item[1] for item in found["video", 0]]
    begin = found["audio", 0][0][1]
    assert [at - begin for at in shown] == [number * 40 + group[number % 4][1] for number in range(20)]


@pytest.mark.parametrize("cut", [1, 4, 9, 30])
def test_a_file_that_breaks_off_plays_to_its_last_whole_tag(cut: int) -> None:
    whole = file_of(media(3))
    data = movie(whole[:-cut])
    assert len(packets(BytesIO(data))["video", 0]) == 30
    sounds = [item[3] for item in packets(BytesIO(data))["audio", 0]]
    assert len(sounds) == (30 if cut <= 4 else 29)


def test_movie_ends_before_trailing_junk() -> None:
    data = movie(file_of(media(3)) + b"\xff" * 5000)
    assert len(packets(BytesIO(data))["audio", 0]) == 30


H263 = b"\x22\x00\x00\x84\x00"
SPEEX = b"\xb2\x01\x02"
ENCRYPTED = HEADER + b"".join(tag(*item, first=item[0] | 0x20) for item in media(1))


@pytest.mark.parametrize(
    ("flv", "words"),
    [
        (file_of([(VIDEO, 0, H263), *media(1)[1::2]]), "picture is H.263"),
        (file_of([*media(1), (AUDIO, 1000, SPEEX)]), "sound is Speex"),
        (file_of([(VIDEO, 0, b"\x90vvc1" + bytes(30))]), "picture is H.266"),
        (file_of([(VIDEO, 0, b"\x90mp4a\x12\x10")]), "picture is AAC"),
        (ENCRYPTED, "encrypted"),
        (file_of(media(1)[2:]), "headers that its codecs need are missing"),
        (HEADER, "neither picture nor sound"),
        (file_of([(VIDEO, 0, AVC_HEADER), (AUDIO, 0, AAC_HEADER)]), "neither picture nor sound"),
        (file_of([(VIDEO, 0, b"\x17\0\0\0\0no"), (VIDEO, 0, KEY)]), "configuration of H.264 can’t be read"),
    ],
)
def test_unplayable_recording_is_refused_with_its_reason(flv: bytes, words: str) -> None:
    with pytest.raises(Unplayable, match=words):
        movie(flv)


@pytest.mark.parametrize("data", [b"", b"FLV", b"no flv at all, whatever its name says"])
def test_file_that_is_no_flv_is_refused(data: bytes) -> None:
    with pytest.raises(FlvError):
        movie(data)


def test_movie_over_a_limit_is_refused() -> None:
    flv = file_of(media(3))
    for small in (replace(LIMITS, frames=59), replace(LIMITS, configurations=0), replace(LIMITS, changes=0)):
        with pytest.raises(Unplayable):
            movie(flv, small)
    assert movie(flv, replace(LIMITS, frames=60))
    tracks = [(AUDIO, 0, b"\x95\x00Opus" + bytes((number,)) + b"x") for number in range(5)]
    with pytest.raises(Unplayable, match="more than 3 tracks"):
        movie(file_of(tracks), replace(LIMITS, tracks=3))
    long = (VIDEO, 0, AVC_HEADER + bytes(LIMITS.configuration_bytes))
    with pytest.raises(Unplayable, match="missing"):
        movie(file_of([long, (VIDEO, 0, KEY)]))


def test_frames_beyond_4_gib(tmp_path: Path) -> None:
    """In a file of holes."""
    path = tmp_path / "long.flv"
    size = 9 * 1024 * 1024
    with path.open("wb+") as stream:
        stream.write(file_of([(VIDEO, 0, AVC_HEADER)]))
        for number in range(460):
            head = tag(VIDEO, number * 40, KEY[:5])
            stream.write(head[:1] + size.to_bytes(3, "big") + head[4:16])
            stream.seek(size - 5, 1)
            stream.write((size + 11).to_bytes(4, "big"))
        frames = frames_of(stream)
    (track,) = frames.tracks
    assert len(track.offsets) == 460
    assert frames.end > 2**32
    head = movie_head(frames)
    places = boxes(head)[b"co64"]
    assert int.from_bytes(places[-8:], "big") == len(head) + track.offsets[-1]
    assert head[-16:] == b"\0\0\0\1mdat" + (16 + frames.end).to_bytes(8, "big")


CODED = [AVC_HEADER, AAC_HEADER, KEY, INTER, SOUND, H263, b"", b"\x90hvc1", b"\x91av01x", b"\x94", b"\x97\x00\x00"]
CODED += [
    b"\x96\x01",
    b"\x95\x01Opus\x01x",
    b"\x96\x21hvc1\0\0\0\3abc",
    b"\x91ac-3\x0b\x77" + bytes(20),
    b"\x2f\xff\xfb\x90",
]
PIECES = st.sampled_from(CODED) | st.binary(max_size=40)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([AUDIO, VIDEO, 18]), st.integers(0, 2**32 - 1), PIECES),
        max_size=20,
    )
)
def test_any_recorded_tags_give_a_movie_or_are_unplayable(tags: Tags) -> None:
    """It is a file of boxes, or there is none in words."""
    with suppress(Unplayable):
        assert boxes(movie(file_of(tags))).keys() >= {b"ftyp", b"moov", b"mdat"}
