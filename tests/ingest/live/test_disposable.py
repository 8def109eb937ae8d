"""Frames that no other refers to, by the bytes of each codec."""

import subprocess
from pathlib import Path

import imageio_ffmpeg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.flv import FlvWriter
from ingest.live.message import MOST_UNITS, is_disposable
from tests.ingest.flv.files import VIDEO, tags_of


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
def test_frames(payload: bytes, answer: bool) -> None:
    assert is_disposable(payload) is answer


@given(st.sampled_from([b"", AVC, HEVC, HEVC_X, VP9]), st.binary(max_size=60))
def test_whatever_a_peer_sends_gives_an_answer(header: bytes, rest: bytes) -> None:
    assert is_disposable(header + rest) in (True, False)


@pytest.mark.parametrize("encoder", ["libx264 -bf 3", "libx265 -bf 3 -x265-params log-level=none"])
def test_without_them_the_other_pictures_are_the_same(tmp_path: Path, encoder: str) -> None:
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
