"""The validator of segments and parts, and the reader of fragmented MP4 that it stands on."""

import io
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import av
import imageio_ffmpeg
import pytest

from tests.hls.clip import PARTS, clip
from tests.hls.mp4 import boxes, read_fragments, read_init
from tests.hls.playlist import Part, read
from tests.hls.segments import Body, Media
from tests.rtmpweb import processes


def good() -> list[Body]:
    found = read(clip().playlist(42))
    return [
        Body(each, None if each.is_open else clip().segment(each.msn), parts_of(each.msn)[: len(each.parts)])
        for each in found.all_segments
    ]


def parts_of(msn: int) -> list[bytes]:
    return clip().parts[msn * PARTS : (msn + 1) * PARTS]


def media(bodies: list[Body], init: bytes | None = None) -> Media:
    return Media({"init.mp4": clip().init if init is None else init}, bodies, are_independent=True)


def test_good_segments_have_no_fault() -> None:
    assert media(good()).findings() == []


def test_unfetched_parts_are_no_fault() -> None:
    bodies = [replace(body, parts=[None] * len(body.parts)) for body in good()]
    assert media(bodies).findings() == []


def changed(change: Callable[[bytes], bytes], place: int = 3) -> list[Body]:
    """In a segment without parts."""
    bodies = good()
    whole = bodies[place].whole
    assert whole is not None
    bodies[place] = replace(bodies[place], whole=change(whole))
    return bodies


def with_part(**changes: object) -> list[Body]:
    """The second part of segment 6 is told otherwise."""
    bodies = good()
    segment = bodies[6].segment
    parts = list(segment.parts)
    parts[1] = replace(parts[1], **changes)  # type: ignore[arg-type]
    bodies[6] = replace(bodies[6], segment=replace(segment, parts=tuple(parts)))
    return bodies


def _renamed_second_traf(data: bytes) -> bytes:
    found = b""
    for box in boxes(data):
        piece = data[box.start : box.end]
        if box.kind == b"moof":
            first = piece.index(b"traf")
            second = piece.index(b"traf", first + 4)
            piece = piece[:second] + b"free" + piece[second + 4 :]
        found += piece
    return found


BAD: list[tuple[str, Callable[[], Media]]] = [
    ("init", lambda: media(good(), b"")),
    ("init", lambda: media(good(), clip().init.replace(b"mvex", b"free"))),
    ("init", lambda: media(good(), clip().init + clip().parts[0])),
    ("init", lambda: Media({}, good())),
    ("whole", lambda: media(changed(lambda data: data[:-1]))),
    ("whole", lambda: media(changed(lambda data: data.replace(b"tfdt", b"free")))),
    ("whole", lambda: media(changed(lambda data: data.replace(b"moof", b"free")))),
    ("whole", lambda: media(changed(lambda data: data.replace(b"tfhd\x00\x02", b"tfhd\x00\x00")))),
    ("whole", lambda: media(changed(lambda data: b""))),
    ("concatenated", lambda: media(changed(lambda data: data[:-1] + b"?", place=6))),
    ("in-order", lambda: media(good()[::-1])),
    ("in-order", lambda: media(good()[:2] + good()[3:])),
    ("independent", lambda: media(with_part(is_independent=True))),
    ("independent", lambda: media(changed(lambda data: b"".join(parts_of(3)[1:])))),
    ("durations", lambda: media(changed(lambda data: b"".join(parts_of(3)[:-1])))),
    ("durations", lambda: media(with_part(duration=0.21))),
]


def good_without_independent() -> list[Body]:
    bodies = good()
    first: Part = replace(bodies[6].segment.parts[0], is_independent=False)
    told = replace(bodies[6].segment, parts=(first, *bodies[6].segment.parts[1:]))
    bodies[6] = replace(bodies[6], segment=told)
    return bodies


@pytest.mark.parametrize(("name", "make"), BAD)
def test_each_check_finds_its_bad_segments(name: str, make: Callable[[], Media]) -> None:
    assert name in {finding.name for finding in make().findings()}


def test_every_check_has_bad_segments() -> None:
    assert set(Media.rules()) == {name for name, _ in BAD}


def test_discontinuity_allows_a_jump_of_decode_times() -> None:
    bodies = good()
    bodies[3] = replace(bodies[3], segment=replace(bodies[3].segment, has_discontinuity=True))
    assert media(bodies[:2] + bodies[3:]).findings() == []


CODECS = {"aac": "mp4a.40.2", "libopus": "Opus", "ac3": "ac-3", "eac3": "ec-3", "flac": "fLaC"}


def test_codec_of_pictures(tmp_path: Path) -> None:
    options = "-f lavfi -i testsrc2=size=320x180:rate=25 -t 1 -pix_fmt yuv420p -g 25"
    assert _encoded(tmp_path, f"{options} -c:v libx264 -profile:v main -level 3.1") == ["avc1.4d401f"]


@pytest.mark.parametrize(("encoder", "codec"), CODECS.items())
def test_codecs_of_sound(tmp_path: Path, encoder: str, codec: str) -> None:
    assert _encoded(tmp_path, f"-f lavfi -i sine=sample_rate=48000 -t 1 -c:a {encoder} -strict -2") == [codec]


def _encoded(folder: Path, options: str) -> list[str]:
    """What the init segment says that FFmpeg made; its samples are PyAV's."""
    file = folder / "a.mp4"
    flags = "-movflags +empty_moov+default_base_moof+frag_keyframe+delay_moov -f mp4"
    done = processes.run(
        imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-y", *options.split(), *flags.split(), str(file)
    )
    assert done.returncode == 0, done.stderr
    data = file.read_bytes()
    top = [box for box in boxes(data) if box.kind != b"mfra"]
    init = b"".join(data[box.start : box.end] for box in top if box.kind in (b"ftyp", b"moov"))
    rest = b"".join(data[box.start : box.end] for box in top if box.kind not in (b"ftyp", b"moov"))
    tracks = read_init(init)
    runs = read_fragments(rest, init)
    assert {run.track.number: run.track for run in runs} == tracks
    assert all(one.ends == after.begins for one, after in pairwise(runs))
    with av.open(io.BytesIO(data), "r") as container:
        packets = [packet for packet in container.demux() if packet.size]
    assert [is_sync for run in runs for is_sync in run.are_sync] == [packet.is_keyframe for packet in packets]
    return [track.codec for track in tracks.values()]
