"""Whatever a peer sends: nothing is raised, and no figure is impossible."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ingest.rtmp.codecs import audio_config, video_config
from ingest.rtmp.codecs.config import MAX_FPS, MAX_SAMPLE_RATE, MAX_SIDE
from ingest.rtmp.media import read_audio, read_video
from tests.ingest.rtmp.codecs.helpers import VECTORS, h, vector

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
def test_no_video_is_too_strange(start: bytes, rest: bytes) -> None:
    found = video_config(read_video(start + rest))
    if found and found.width is not None and found.height is not None:
        assert 0 < found.width <= MAX_SIDE
        assert 0 < found.height <= MAX_SIDE
    assert found is None or found.fps is None or 0 <= found.fps <= MAX_FPS


@given(st.sampled_from(SOUND_STARTS), st.binary(max_size=200))
def test_no_sound_is_too_strange(start: bytes, rest: bytes) -> None:
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
