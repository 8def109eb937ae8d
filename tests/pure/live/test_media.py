"""What messages hold, told from their first bytes; and frames that no other refers to, by the bytes of each codec."""

import subprocess
from pathlib import Path

import imageio_ffmpeg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.flv import FlvWriter
from ingest.live.media import Tag, audio_tag, video_tag
from ingest.live.message import MOST_UNITS, is_disposable
from tests.pure.flv.files import VIDEO, tags_of

# (bytes, codec, what it is: h header, k keyframe, f other frame, d disposable frame, - neither, track)
PICTURES = [
    ("1700000000 0164001f", "H.264", "h", 0),
    ("1701000000 00000001", "H.264", "k", 0),
    ("2701000042 00000001", "H.264", "f", 0),
    ("3701000000 00000001", "H.264", "d", 0),
    ("4701000000 00000001", "H.264", "k", 0),
    ("1702000000", "H.264", "-", 0),
    ("1c00000000 01", "H.265", "h", 0),
    ("12 00008400", "H.263", "k", 0),
    ("22 00008400", "H.263", "f", 0),
    ("14 00 11", "VP6", "k", 0),
    ("90 68766331 01", "H.265", "h", 0),
    ("91 68766331 000085 00", "H.265", "k", 0),
    ("a1 68766331 000085 00", "H.265", "f", 0),
    ("a3 68766331 00", "H.265", "f", 0),
    ("b3 68766331 00", "H.265", "d", 0),
    ("92 68766331", "H.265", "-", 0),
    ("d4 68766331 02", "H.265", "h", 0),
    ("90 61763031 81", "AV1", "h", 0),
    ("95 61763031 80", "AV1", "h", 0),
    ("91 61763031 1200", "AV1", "k", 0),
    ("90 76703039 01000000", "VP9", "h", 0),
    ("91 76703038 00", "VP8", "k", 0),
    ("91 76766331 000000 00", "H.266", "k", 0),
    ("91 61766331 000000 00", "H.264", "k", 0),
    ("96 00 61766331 01 0164", "H.264", "h", 1),
    ("96 01 61766331 01 000000 00", "H.264", "k", 1),
    ("a6 13 61766331 02 000001 00", "H.264", "f", 2),
    ("97 02 000102 01 68766331 000000", "H.265", "k", 0),
    ("a7 ff 0100" + "00" * 257 + "03 68766331 00", "H.265", "f", 0),
    ("91 7a7a7a7a 00", "zzzz", "k", 0),
    ("91 ffffffff 00", "unknown", "k", 0),
    ("5700000000", "H.264", "-", 0),
    ("d6 04 68766331 03 02", "H.265", "h", 3),
    ("d6 04", "H.265", "-", 0),
    ("d6 01 68766331 03 02", "H.265", "-", 0),
]

SOUNDS = [
    ("af00 1190", "AAC", "h", 0),
    ("af01 21", "AAC", "f", 0),
    ("2f ff", "MP3", "f", 0),
    ("b2 00", "Speex", "f", 0),
    ("72 00", "G.711 A-law", "f", 0),
    ("82 00", "G.711 mu-law", "f", 0),
    ("3e 00", "PCM", "f", 0),
    ("90 4f707573 4f707573", "Opus", "h", 0),
    ("91 4f707573 fc", "Opus", "f", 0),
    ("92 4f707573", "Opus", "-", 0),
    ("94 4f707573 0101", "Opus", "h", 0),
    ("90 61632d33", "AC-3", "h", 0),
    ("91 65632d33 0b77", "E-AC-3", "f", 0),
    ("91 664c6143 ff", "FLAC", "f", 0),
    ("91 2e6d7033 ff", "MP3", "f", 0),
    ("95 00 6d703461 01 1190", "AAC", "h", 1),
    ("95 01 6d703461 01 21", "AAC", "f", 1),
    ("", "", "f", 0),
]


def kind_of(tag: Tag) -> str:
    if tag.is_header:
        return "h"
    if tag.is_keyframe:
        return "k"
    if tag.is_disposable:
        return "d"
    return "f" if tag.is_frame else "-"


@pytest.mark.parametrize(("text", "codec", "kind", "track"), PICTURES + SOUNDS)
def test_tag_reads_kind_codec_and_track_of_a_message(text: str, codec: str, kind: str, track: int) -> None:
    tag = (video_tag if (text, codec, kind, track) in PICTURES else audio_tag)(bytes.fromhex(text))
    assert (kind_of(tag), tag.track) == (kind, track)
    if kind != "-":
        assert tag.codec == codec


def test_headers_of_different_tracks_and_kinds_have_slots_of_their_own() -> None:
    sequence, colour, other_track = ("90 68766331 01", "d4 68766331 02", "96 00 68766331 01 01")
    slots = {video_tag(bytes.fromhex(text)).slot for text in (sequence, colour, other_track)}
    assert len(slots) == 3


@given(st.binary(max_size=40))
def test_tag_of_any_payload_is_consistent(payload: bytes) -> None:
    for tag in (video_tag(payload), audio_tag(payload)):
        assert not (tag.is_header and tag.is_frame)
        assert not tag.is_keyframe or tag.is_frame
        assert tag.codec.isprintable()


def test_a_chain_of_extensions_is_not_followed_for_ever() -> None:
    endless = b"\x97" + bytes.fromhex("00 00 07") * 100_000
    assert not video_tag(endless).is_frame


def units(*firsts: int, size: int = 6) -> bytes:
    """NAL units that begin with these bytes."""
    return b"".join((size + 1).to_bytes(4, "big") + bytes((first,)) + bytes(size) for first in firsts)


AVC = bytes.fromhex("2701000000")
HEVC = bytes.fromhex("a1") + b"hvc1" + bytes(3)
HEVC_X = bytes.fromhex("a3") + b"hvc1"
VP9 = bytes.fromhex("a1") + b"vp09"


def vp9(bits: str) -> bytes:
    bits = bits.replace(" ", "")
    return VP9 + int(bits.ljust(64, "0"), 2).to_bytes(8, "big")


@pytest.mark.parametrize(
    ("payload", "answer"),
    [
        (AVC + units(0x01), True),
        (AVC + units(0x09, 0x06, 0x01, 0x01), True),
        (AVC + units(0x21), False),
        (AVC + units(0x01, 0x41), False),
        (AVC + units(0x01)[:-1], False),
        (AVC + units(0x01) + b"\0", False),
        (AVC + units(*[0x01] * MOST_UNITS), True),
        (AVC + units(*[0x01] * (MOST_UNITS + 1)), False),
        (AVC, False),
        (b"\x27\x00\x00\x00\x00" + units(0x01), False),
        (b"\x32" + bytes(20), True),
        (b"\x22" + bytes(20), False),
        (b"\x2c\x01\0\0\0" + units(0x00), True),
        (HEVC + units(0x00), True),
        (HEVC + units(0x46, 0x00, 0x50), True),
        (HEVC + units(0x02), False),
        (HEVC_X + units(8 << 1), True),
        (HEVC_X + units(19 << 1), False),
        (bytes.fromhex("a1") + b"avc1" + bytes(3) + units(0x01), True),
        (bytes.fromhex("a3") + b"avc1" + units(0x41), False),
        (vp9("10 00 0 1 1 0 00 00000000"), True),
        (vp9("10 00 0 1 1 0 00 00000100"), False),
        (vp9("10 00 0 1 1 1 00000000"), True),
        (vp9("10 11 0 0 1 1 0 00 00000000"), True),
        (vp9("10 00 0 0 1 0 00 00000000"), False),
        (vp9("10 00 1 1 1 0 00 00000000"), False),
        (vp9("10 00 0 1 0 0 00 00000000"), False),
        (vp9("10 00 0 1 1 0 00 00000000")[:-1] + b"\xc1", False),
        (bytes.fromhex("a1") + b"av01" + bytes(20), False),
        (b"", False),
        (b"\x27", False),
    ],
)
def test_is_disposable_recognises_unreferenced_frames_by_codec(payload: bytes, answer: bool) -> None:
    assert is_disposable(payload) is answer


@given(st.sampled_from([b"", AVC, HEVC, HEVC_X, VP9]), st.binary(max_size=60))
def test_is_disposable_answers_for_any_bytes(header: bytes, rest: bytes) -> None:
    assert is_disposable(header + rest) in (True, False)


@pytest.mark.parametrize("encoder", ["libx264 -bf 3", "libx265 -bf 3 -x265-params log-level=none"])
def test_removing_disposable_frames_leaves_other_pictures_unchanged(tmp_path: Path, encoder: str) -> None:
    whole, rest = tmp_path / "whole.flv", tmp_path / "rest.flv"
    pictures = ["-f", "lavfi", "-i", "testsrc2=size=160x90:rate=25:duration=3"]
    _ffmpeg(*pictures, "-c:v", *encoder.split(), "-preset", "veryfast", "-g", "25", str(whole))
    tags = tags_of(whole.read_bytes())
    dropped = [tag for tag in tags if tag.type_id == VIDEO and is_disposable(tag.payload)]
    with rest.open("wb") as stream:
        writer = FlvWriter.begin(stream, {})
        for tag in tags:
            if tag.type_id == VIDEO and tag not in dropped:
                writer.write(tag.type_id, tag.timestamp, tag.payload)
        writer.finish()
    before, after = _decoded(whole), _decoded(rest)
    assert len(dropped) > 15
    assert len(before) - len(after) == len(dropped)
    assert set(after) <= set(before)


def _decoded(path: Path) -> list[tuple[str, str]]:
    """Time and content of each picture."""
    lines = _ffmpeg("-i", str(path), "-an", "-fps_mode", "passthrough", "-f", "framemd5", "-").splitlines()
    rows = [line.split(",") for line in lines if not line.startswith("#")]
    return [(row[2].strip(), row[5].strip()) for row in rows]


def _ffmpeg(*arguments: str) -> str:
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    return done.stdout
