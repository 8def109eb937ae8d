"""Resolution, profile, sample rate and channels from sequence headers."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.live.headers import describe_audio, describe_video
from ingest.live.media import audio_tag, video_tag
from tests.ingest.live.payloads import avc_header, sps


def measure_video(payload: bytes) -> dict[str, Any]:
    return dict(describe_video(video_tag(payload), payload))


def measure_audio(text: str) -> dict[str, Any]:
    payload = bytes.fromhex(text)
    return dict(describe_audio(audio_tag(payload), payload))


@pytest.mark.parametrize(
    ("parameter_set", "size", "profile"),
    [
        (sps(width_mbs=120, height_units=68, crop=(0, 0, 0, 4)), (1920, 1080), "High 4.0"),
        (sps(width_mbs=80, height_units=45, profile=77, level=31), (1280, 720), "Main 3.1"),
        (sps(width_mbs=40, height_units=23, profile=66, constraints=0xC0, level=30, crop=(0, 0, 0, 4)), (640, 360),
         "Constrained Baseline 3.0"),
        (sps(width_mbs=11, height_units=9, profile=66, level=11, constraints=0x10), (176, 144), "Baseline 1b"),
        (sps(width_mbs=120, height_units=34, frame_mbs_only=False, crop=(0, 0, 0, 2)), (1920, 1080), "High 4.0"),
        (sps(width_mbs=240, height_units=135, profile=110, level=51, scaling=True), (3840, 2160), "High 10 5.1"),
        (sps(width_mbs=20, height_units=12, profile=244, level=12, chroma=3, crop=(0, 0, 0, 12)), (320, 180),
         "High 4:4:4 1.2"),
        (sps(width_mbs=20, height_units=12, profile=122, level=12, chroma=2, crop=(1, 2, 0, 12), scaling=True),
         (314, 180), "High 4:2:2 1.2"),
    ],
)  # fmt: skip
def test_avc(parameter_set: bytes, size: tuple[int, int], profile: str) -> None:
    assert measure_video(avc_header(parameter_set)) == {
        "video_codec": "H.264",
        "width": size[0],
        "height": size[1],
        "profile": profile,
    }


def test_emulation_prevention_is_undone() -> None:
    parameter_set = sps(width_mbs=40, height_units=23, profile=66, level=0, set_id=70, crop=(0, 0, 0, 4))
    assert parameter_set[2:5] == b"\x00\x00\x03"
    found = measure_video(avc_header(parameter_set))
    assert (found["width"], found["height"]) == (640, 360)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("af00 1210", ("AAC-LC", 44100, 2)),
        ("af00 1188", ("AAC-LC", 48000, 1)),
        ("af00 11b8", ("AAC-LC", 48000, 8)),
        ("af00 2b09 88", ("HE-AAC", 48000, 1)),  # Object type 5, core 24 kHz, extended to 48 kHz.
        ("af00 eb8a 08", ("HE-AACv2", 44100, 2)),  # Object type 29, core 22.05 kHz mono.
        ("2f ff", ("MP3", 44100, 2)),
        ("26 ff", ("MP3", 11025, 1)),
        ("e2 ff", ("MP3", 8000, 1)),
        ("72 00", ("G.711 A-law", 8000, 1)),
        ("b2 00", ("Speex", 16000, 1)),
        ("90 4f707573 4f70757348656164 01 02 3801 80bb0000 0000 00", ("Opus", 48000, 2)),
        ("90 664c6143" + "10001000 000000 000000 0bb802f0 00000000" + "00" * 16, ("FLAC", 48000, 2)),
        ("90 664c6143 664c6143 80000022" + "10001000 000000 000000 0ac440f0 00000000" + "00" * 16, ("FLAC", 44100, 1)),
    ],
)
def test_sound(text: str, expected: tuple[str, int, int]) -> None:
    assert measure_audio(text) == dict(zip(("audio_codec", "sample_rate", "channels"), expected, strict=True))


@pytest.mark.parametrize("text", ["af00", "af00 ff", "90 4f707573", "90 664c6143 00", "90 61632d33", "af00 1e90"])
def test_sound_that_can_not_be_read_has_its_codec_alone(text: str) -> None:
    assert list(measure_audio(text)) == ["audio_codec"]


def test_a_cut_header_has_its_codec_alone() -> None:
    whole = avc_header()
    for size in range(5, len(whole) - 12):
        assert measure_video(whole[:size])["video_codec"] == "H.264"
    assert measure_video(whole[:12]) == {"video_codec": "H.264"}


@given(st.binary(max_size=80))
def test_no_header_is_too_strange(body: bytes) -> None:
    for payload in (b"\x17\0\0\0\0" + body, b"\x17\0\0\0\0\x01\x64\0\x1f\xff\xe1\0\x40\x67" + body):
        info = measure_video(payload)
        assert 0 < info.get("width", 1) <= 16384
    for start in (b"\xaf\0", b"\x90Opus", b"\x90fLaC"):
        describe_audio(audio_tag(start + body), start + body)
