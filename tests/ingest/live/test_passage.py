"""What a player is sent whose time is its own, or whose item is shorter than the stream."""

from collections.abc import Callable
from operator import attrgetter

import pytest

from ingest.live.message import SharedMessage
from ingest.live.subscriber import TimelineShift
from tests.ingest.live.payloads import read_chunks


def frame(kind: str, at: int, size: int = 20, *, is_keyframe: bool = False) -> SharedMessage:
    assert kind in ("audio", "video")
    return SharedMessage(kind, at, bytes(size), at / 1000, is_frame=True, is_keyframe=is_keyframe)  # type: ignore[arg-type]


is_keyframe, is_frame = attrgetter("is_keyframe"), attrgetter("is_frame")

HEADER = SharedMessage("video", 0, b"header", 0.0, is_header=True)
METADATA = SharedMessage("data", 0, b"metadata", 0.0, is_header=True)
CUE = SharedMessage("data", 0, b"cue", 0.0)


@pytest.mark.parametrize(
    ("first", "reached", "timestamp", "at"),
    [
        (1000, 1500, 1040, 1540),
        (1000, 600, 1040, 640),
        (0xFFFFF0, 0xFFFFF1, 0xFFFFFE, 0xFFFFFF),
        (0x1000000, 0xFFFFFE, 0x1000000, 0xFFFFFE),
        (0x01000000, 0x02000000, 0x01000010, 0x02000010),
        (0xFFFFFFF0, 0x10, 0x10, 0x30),
        (0x10, 0xFFFFFFF0, 0x40, 0x20),
    ],
)
@pytest.mark.parametrize("size", [10, 150_000])
def test_time(first: int, reached: int, timestamp: int, at: int, size: int) -> None:
    passage = TimelineShift(reached=reached)
    passage.take([frame("video", first)], is_keyframe)
    message = frame("video", timestamp, size)
    (received,) = read_chunks(passage.encoded(message, 5))
    assert (received.timestamp, received.stream_id, received.payload) == (at, 5, message.payload)
    (shared,) = read_chunks(message.encoded(5))
    assert shared.timestamp == timestamp, "the others' bytes are as they were"


def test_nothing_is_before_what_was_reached() -> None:
    passage = TimelineShift(reached=1500)
    assert passage.take([HEADER], is_keyframe) == [HEADER]
    assert passage.at(700) == 1500, "headers, before the first frame"
    passage.take([frame("video", 500)], is_keyframe)
    assert [passage.at(timestamp) for timestamp in (200, 499, 500, 501, 0xFFFFFFF0)] == [1500, 1500, 1500, 1501, 1500]


def test_metadata_are_of_no_time() -> None:
    passage = TimelineShift(reached=1500)
    for messages in ([METADATA], [frame("video", 500), METADATA]):
        assert METADATA in passage.take(messages, is_keyframe)
        (received,) = read_chunks(passage.encoded(METADATA, 5))
        assert (received.timestamp, received.payload) == (0, b"metadata")


def test_it_ends_by_the_media_s_time() -> None:
    passage = TimelineShift(length_ms=100)
    messages = [HEADER, frame("audio", 5000), CUE, frame("video", 5099), frame("video", 5100), frame("audio", 5050)]
    assert passage.take(messages[:3], is_keyframe) == messages[:3]
    assert passage.take(messages[3:], is_keyframe) == messages[3:4]
    assert passage.is_over
    assert passage.take(messages, is_keyframe) == []


def test_across_the_wrap() -> None:
    passage = TimelineShift(length_ms=100)
    messages = [frame("video", 0xFFFFFFFF - 10), frame("video", 80), frame("video", 90)]
    assert passage.take(messages, is_keyframe) == messages[:2]


@pytest.mark.parametrize(("is_beginning", "expected"), [(is_keyframe, [0, 3]), (is_frame, [0, 2])])
def test_one_frame(is_beginning: Callable[[SharedMessage], bool], expected: list[int]) -> None:
    messages = [HEADER, CUE, frame("audio", 10), frame("video", 20, is_keyframe=True), frame("audio", 30)]
    passage = TimelineShift(length_ms=0)
    assert passage.take(messages, is_beginning) == [messages[at] for at in expected]
    assert passage.is_over
