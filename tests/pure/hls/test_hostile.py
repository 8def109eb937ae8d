"""Whatever a publisher sends: nothing is raised, and what is kept has bounds."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.hls import HlsSettings
from ingest.live.message import Kind
from tests.pure.hls.feeding import WALL, Fed, Message, enhanced
from tests.pure.hls.test_playlists import check_all, check_playlist

SMALL = HlsSettings(
    part_bytes=20_000, segment_bytes=100_000, memory_bytes=400_000, gathered_frames=200, tracks_per_kind=3, window_s=5
)
QUIET = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

HEADS = [
    *(bytes((frame << 4 | 7, packet, 0, 0, 0)) for frame in (1, 2) for packet in (0, 1)),
    b"\xaf\x00",
    b"\xaf\x01",
    b"\x2f",
    *(
        bytes((0x80 | frame << 4 | packet,)) + fourcc
        for frame in (1, 2)
        for packet in (0, 1, 3)
        for fourcc in (b"hvc1", b"av01", b"vp09", b"avc1")
    ),
    *(
        bytes((0x90 | packet,)) + fourcc
        for packet in (0, 1)
        for fourcc in (b"Opus", b"fLaC", b"ac-3", b"ec-3", b".mp3")
    ),
    b"\x95\x01Opus\x01",
    b"\x96\x01avc1\x01",
]
KINDS = st.sampled_from(["audio", "video"])
TIMES = st.one_of(st.integers(0, 5000), st.integers(0, 2**32 - 1))


@pytest.fixture(scope="session")
def first_of(clip: list[Message]) -> Callable[[int], list[Message]]:
    """So many of the clip's messages, which Hypothesis would print otherwise."""
    return lambda count: clip[:count]


def swallow(fed: Fed, messages: list[tuple[Kind, int, bytes]]) -> None:
    wall = WALL
    for kind, timestamp, payload in messages:
        wall += 0.01
        fed.packaging.take(kind, timestamp, payload, wall)
    for rendition in fed.packaging.renditions.values():
        check_playlist(rendition.playlist())
        assert rendition.playlist(skip=True)
    fed.packaging.multivariant("viewer=1")
    fed.packaging.end(for_good=True)
    for rendition in fed.packaging.renditions.values():
        if rendition.has_media:
            check_playlist(rendition.playlist())
        assert rendition.bytes <= fed.settings.memory_bytes + fed.settings.segment_bytes


@QUIET
@given(st.lists(st.tuples(KINDS, TIMES, st.binary(max_size=64)), max_size=40))
def test_any_bytes_raise_nothing_and_memory_stays_bounded(messages: list[tuple[Kind, int, bytes]]) -> None:
    swallow(Fed(SMALL).begin(), messages)


@QUIET
@given(st.lists(st.tuples(KINDS, TIMES, st.sampled_from(HEADS), st.binary(max_size=64)), max_size=60))
def test_any_bytes_behind_known_heads(messages: list[tuple[Kind, int, bytes, bytes]]) -> None:
    swallow(Fed(SMALL).begin(), [(kind, at, head + rest) for kind, at, head, rest in messages])


@QUIET
@given(seed=st.integers(0, 2**32), rate=st.sampled_from([0.02, 0.2]))
def test_damaged_clip_raises_nothing_and_memory_stays_bounded(
    first_of: Callable[[int], list[Message]], seed: int, rate: float
) -> None:
    """Bytes, times and places of messages are changed here and there, and some come twice."""
    random = Random(seed)
    messages: list[Message] = []
    for kind, timestamp, payload in first_of(200):
        data = bytearray(payload)
        if random.random() < rate:
            data[random.randrange(min(len(data), 40))] = random.randrange(256)
        if random.random() < rate / 4:
            timestamp = random.choice([random.randrange(2**32), timestamp + 20_000, max(timestamp - 700, 0)])
        if random.random() < rate / 4:
            kind = random.choice(["audio", "video"])
        messages += [(kind, timestamp, bytes(data))] * random.choice([1, 1, 1, 2])
    swallow(Fed(SMALL).begin(gop_s=random.choice([None, 1.0])), messages)


def test_real_headers_cut_anywhere(tmp_path: Path) -> None:
    for number, codecs in enumerate((("h264", "aac"), ("hevc", "opus"), ("av1", "flac"), ("vp9", "ac3"))):
        messages = enhanced(tmp_path / f"{number}.flv", [codecs[0]], [codecs[1]], seconds=1)
        for cut in range(1, 120, 7):
            swallow(Fed(SMALL).begin(), [(k, t, p[:cut] if p[0] & 15 == 0 or p[1] == 0 else p) for k, t, p in messages])


def test_tracks_over_the_limit_are_left_out_with_a_reason(clip: list[Message]) -> None:
    fed = Fed(SMALL).begin(gop_s=1.0)
    for kind, timestamp, payload in clip:
        fed.packaging.take(kind, timestamp, payload, WALL + timestamp / 1000)
        if kind == "audio":
            for track in range(1, 40):
                head = bytes((0x95, payload[1])) + b"mp4a" + bytes((track,))
                fed.packaging.take(kind, timestamp, head + payload[2:], WALL + timestamp / 1000)
    check_all(fed)
    assert len(fed.packaging.renditions) == 3
    assert fed.packaging.left_out.sentences == ["More than 3 tracks of audio: the further ones are left out."]


def test_a_flood_of_small_frames_is_bounded(clip: list[Message]) -> None:
    fed = Fed(SMALL).begin()
    headers = [message for message in clip[:4] if message[2][1] == 0]
    picture: Message = ("video", 0, b"\x17\x01\0\0\0" + b"\0\0\0\1e")
    sound: Message = ("audio", 0, b"\xaf\x01x")
    swallow(fed, [*headers, *[picture] * 3000, *[sound] * 3000])
