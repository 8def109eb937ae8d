"""Players that are not sent everything: paused, without sound or picture, of a time of their own, or of an item that is
shorter than the stream.
"""

import gc
import sys
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import pytest

from ingest.live import LiveStream
from ingest.live.message import Kind, SharedMessage
from ingest.live.timeline_shift import TimelineShift
from tests.pure.live.payloads import (
    AAC_HEADER,
    Player,
    avc_header,
    inter,
    keyframe,
    publisher,
    read_chunks,
    relay,
    sound,
    watched,
)
from tests.pure.rtmp.codecs.test_video import sps

ALL: frozenset[Kind] = frozenset(("video", "audio", "data"))
NONE: frozenset[Kind] = frozenset()
OTHER_HEADER = avc_header(sps(width_mbs=40, height_units=30))


def send(stream: LiveStream, at: int, *, key: bool = False) -> None:
    """A frame of picture and of sound."""
    stream.video(at, keyframe(at) if key else inter(at), at / 1000)
    stream.audio(at, sound(at), at / 1000)


def paused(at: int = 100) -> tuple[LiveStream, Player]:
    """It has got a keyframe and sound of that time, ms, and 50 ms later wants nothing more."""
    stream, player = watched()
    send(stream, at, key=True)
    player.payloads()
    stream.mute(player.subscriber, ALL, at / 1000 + 0.05)
    return stream, player


def test_a_paused_player_is_sent_nothing_and_nothing_counts_as_dropped() -> None:
    stream, player = watched()
    send(stream, 100, key=True)
    stream.mute(player.subscriber, ALL, 0.1)
    assert player.payloads() == [], "what waited is not wanted any more"
    for at in range(200, 30_000, 100):
        send(stream, at, key=at % 1000 == 0)
    stream.data(30_000, "onCue", [], b"cue", 30.0)
    assert player.payloads() == []
    assert (player.subscriber.dropped_frames, player.subscriber.sheds) == (0, 0)
    assert not player.subscriber.is_slow(30.0)


def test_resumed_player_goes_on_at_a_keyframe_with_the_streams_time() -> None:
    stream, player = paused()
    send(stream, 200)
    stream.mute(player.subscriber, NONE, 0.25)
    send(stream, 300)
    send(stream, 400, key=True)
    assert [(each.timestamp, each.payload) for each in player.read()] == [
        (300, sound(300)),
        (400, keyframe(400)),
        (400, sound(400)),
    ]


def test_headers_changed_during_a_pause_are_sent_after_it() -> None:
    stream, player = paused()
    stream.video(200, OTHER_HEADER, 0.2)
    send(stream, 300, key=True)
    stream.mute(player.subscriber, NONE, 0.35)
    send(stream, 400)
    send(stream, 500, key=True)
    assert player.payloads() == [OTHER_HEADER, sound(400), keyframe(500), sound(500)]


def test_player_paused_during_a_takeover_resumes_with_continuous_time() -> None:
    stream, player = paused(5000)
    stream.stop("session-1", 6.0)
    stream.start(publisher("session-2"), 7.0)
    stream.video(0, OTHER_HEADER, 7.1)
    relay(stream, (0, AAC_HEADER), (0, keyframe(1)), now=7.1)
    stream.mute(player.subscriber, NONE, 8.0)
    stream.video(40, inter(2), 8.1)
    stream.video(900, keyframe(3), 8.2)
    got = player.read()
    assert [each.payload for each in got] == [AAC_HEADER, OTHER_HEADER, keyframe(3)]
    assert all(each.timestamp > 5000 for each in got), "its time goes on"


@pytest.mark.parametrize("returns", [7.05, 9.0])
def test_player_resumed_before_the_next_publisher_gets_its_stream(returns: float) -> None:
    stream, player = paused(5000)
    stream.stop("session-1", 6.0)
    stream.mute(player.subscriber, NONE, 7.0)
    stream.start(publisher("session-2"), returns)
    stream.video(0, OTHER_HEADER, returns)
    stream.video(0, keyframe(1), returns)
    assert player.payloads() == [OTHER_HEADER, keyframe(1)]


def test_muted_video_comes_back_at_a_keyframe_with_new_headers() -> None:
    stream, player = watched()
    stream.mute(player.subscriber, frozenset(("video",)), 0.05)
    send(stream, 100, key=True)
    stream.video(150, OTHER_HEADER, 0.15)
    send(stream, 200)
    assert player.payloads() == [sound(100), sound(200)]
    stream.mute(player.subscriber, NONE, 0.25)
    send(stream, 300)
    send(stream, 400, key=True)
    assert player.payloads() == [OTHER_HEADER, sound(300), keyframe(400), sound(400)]


def test_muted_audio_comes_back_at_once_with_new_headers() -> None:
    stream, player = watched()
    stream.mute(player.subscriber, frozenset(("audio",)), 0.05)
    send(stream, 100, key=True)
    stream.audio(150, AAC_HEADER, 0.15)
    assert player.payloads() == [keyframe(100)]
    stream.mute(player.subscriber, NONE, 0.25)
    send(stream, 300)
    assert player.payloads() == [AAC_HEADER, inter(300), sound(300)], "the picture went on all the time"


def test_a_pause_does_not_end_what_was_muted_before() -> None:
    stream, player = watched()
    stream.mute(player.subscriber, frozenset(("video",)), 0.05)
    stream.video(60, OTHER_HEADER, 0.06)
    stream.mute(player.subscriber, ALL, 0.1)
    stream.mute(player.subscriber, frozenset(("video",)), 0.2)
    send(stream, 300, key=True)
    assert player.payloads() == [sound(300)]
    stream.mute(player.subscriber, NONE, 0.4)
    assert player.payloads() == [OTHER_HEADER], "it came when only the picture was unwanted"


def test_muted_player_does_not_affect_other_players() -> None:
    stream, muted = watched()
    other, tap = Player(stream), Player(stream)
    stream.unsubscribe(tap.subscriber)
    stream.tap(tap.subscriber, 0.0)
    other.payloads(), tap.payloads()
    stream.mute(muted.subscriber, ALL, 0.05)
    send(stream, 100, key=True)
    assert other.payloads() == tap.payloads() == [keyframe(100), sound(100)]
    stream.unsubscribe(muted.subscriber)
    send(stream, 200)
    assert other.payloads() == [inter(200), sound(200)]
    assert muted.payloads() == []


class Calls:
    """Counts what is called, and each step of a generator, while it is entered."""

    def __enter__(self) -> "Calls":
        self.count = 0
        gc.disable()  # Else what earlier tests have left may be finalised here, and be counted.
        sys.setprofile(self._note)
        return self

    def __exit__(self, *error: object) -> None:
        sys.setprofile(None)
        gc.enable()

    def _note(self, frame: object, event: str, argument: Any) -> None:
        self.count += event.endswith("call")


def cost_of_a_storm(players: int, change: Kind | None) -> int:
    """Calls made while one player among others, one of which is muted, pauses and goes on a thousand times."""
    stream, restless = watched()
    others = [Player(stream) for _ in range(players)]
    stream.mute(others[0].subscriber, ALL, 0.05)
    stream.mute(restless.subscriber, frozenset((change or "audio",)), 0.05)
    send(stream, 100, key=True)
    with Calls() as calls:
        for turn in range(1000):
            muted = turn % 2 == 0 or change is None
            stream.mute(restless.subscriber, frozenset((change or "audio",)) if muted else NONE, 0.2)
    send(stream, 300, key=True)
    assert [sound(300) in other.payloads() for other in others] == [False] + [True] * (players - 1)
    return calls.count


@pytest.mark.parametrize("kind", ["video", "audio"])
def test_cost_of_many_pauses_is_independent_of_the_number_of_players(kind: Kind) -> None:
    assert cost_of_a_storm(500, kind) == cost_of_a_storm(5, kind)


def test_repeated_mute_without_a_change_costs_almost_nothing() -> None:
    assert cost_of_a_storm(500, None) < 3000


def test_cost_of_leaving_is_independent_of_the_number_of_players() -> None:
    """Also while one is paused."""
    costs = []
    for players in (5, 500):
        stream, paused = watched()
        others = [Player(stream) for _ in range(players)]
        stream.mute(paused.subscriber, ALL, 0.05)
        with Calls() as calls:
            for other in others:
                stream.unsubscribe(other.subscriber)
        costs.append(calls.count / players)
        assert stream.subscribers == (paused.subscriber,)
    assert round(costs[0]) == round(costs[1])


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
def test_timeline_shift_maps_the_first_timestamp_to_the_reached_time(
    first: int, reached: int, timestamp: int, at: int, size: int
) -> None:
    passage = TimelineShift(reached=reached)
    passage.take([frame("video", first)], is_keyframe)
    message = frame("video", timestamp, size)
    (received,) = read_chunks(passage.encoded(message, 5))
    assert (received.timestamp, received.stream_id, received.payload) == (at, 5, message.payload)
    (shared,) = read_chunks(message.encoded(5))
    assert shared.timestamp == timestamp, "the others' bytes are as they were"


def test_timeline_shift_never_goes_before_the_reached_time() -> None:
    passage = TimelineShift(reached=1500)
    assert passage.take([HEADER], is_keyframe) == [HEADER]
    assert passage.at(700) == 1500, "headers, before the first frame"
    passage.take([frame("video", 500)], is_keyframe)
    assert [passage.at(timestamp) for timestamp in (200, 499, 500, 501, 0xFFFFFFF0)] == [1500, 1500, 1500, 1501, 1500]


def test_timeline_shift_keeps_metadata_at_time_zero() -> None:
    passage = TimelineShift(reached=1500)
    for messages in ([METADATA], [frame("video", 500), METADATA]):
        assert METADATA in passage.take(messages, is_keyframe)
        (received,) = read_chunks(passage.encoded(METADATA, 5))
        assert (received.timestamp, received.payload) == (0, b"metadata")


def test_playback_length_ends_by_the_medias_timestamps() -> None:
    passage = TimelineShift(length_ms=100)
    messages = [HEADER, frame("audio", 5000), CUE, frame("video", 5099), frame("video", 5100), frame("audio", 5050)]
    assert passage.take(messages[:3], is_keyframe) == messages[:3]
    assert passage.take(messages[3:], is_keyframe) == messages[3:4]
    assert passage.is_over
    assert passage.take(messages, is_keyframe) == []


def test_playback_length_is_counted_across_the_timestamp_wrap() -> None:
    passage = TimelineShift(length_ms=100)
    messages = [frame("video", 0xFFFFFFFF - 10), frame("video", 80), frame("video", 90)]
    assert passage.take(messages, is_keyframe) == messages[:2]


@pytest.mark.parametrize(("is_beginning", "expected"), [(is_keyframe, [0, 3]), (is_frame, [0, 2])])
def test_playback_of_length_zero_gives_a_single_frame(
    is_beginning: Callable[[SharedMessage], bool], expected: list[int]
) -> None:
    messages = [HEADER, CUE, frame("audio", 10), frame("video", 20, is_keyframe=True), frame("audio", 30)]
    passage = TimelineShift(length_ms=0)
    assert passage.take(messages, is_beginning) == [messages[at] for at in expected]
    assert passage.is_over
