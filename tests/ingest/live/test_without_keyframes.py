"""Streams whose pictures are not marked as keyframes, as with intra refresh: late players see them all the same."""

from collections.abc import Iterable

import pytest

from ingest.live import LiveSettings, LiveStream, QueueLimits
from ingest.live.fanout import ALL_KINDS
from ingest.live.stream_log import LogLimits
from tests.ingest.live.payloads import HEADERS, START_WALL, Player, inter, keyframe, on_air, sound

NO_CACHE = LiveSettings(log=LogLimits(frames=1))
NONE: frozenset[int] = frozenset()


def send(stream: LiveStream, first: int, last: int, *, keys: frozenset[int] = NONE) -> None:
    """A picture and a sound each half second, from one second to the other; those at `keys` seconds are marked. The
    node's tick comes just before each of those."""
    for at in range(2 * first, 2 * last):
        if at % 2 == 0:
            stream.tick(at / 2, START_WALL + at / 2)
        picture = keyframe(at) if at % 2 == 0 and at // 2 in keys else inter(at)
        stream.video(500 * at, picture, at / 2)
        stream.audio(500 * at, sound(at), at / 2)


def pictures(player: Player) -> list[float]:
    """When those were sent that the player has got, in seconds."""
    return [each.timestamp / 1000 for each in player.read() if each.type_id == 9 and each.payload not in HEADERS]


def test_who_was_there_first_waits_for_ten_seconds() -> None:
    stream = on_air(NO_CACHE)
    player = Player(stream)
    send(stream, 0, 11)
    assert pictures(player) == []
    send(stream, 11, 13)
    assert pictures(player) == [11.0, 11.5, 12.0, 12.5]
    assert player.subscriber.dropped_frames == 0, "what is withheld counts as no drop"


@pytest.mark.parametrize("keys", [NONE, frozenset({0})], ids=["none", "the first"])
def test_who_comes_late_does_not_wait(keys: frozenset[int]) -> None:
    stream = on_air(NO_CACHE)
    send(stream, 0, 30, keys=keys)
    player, recorder = Player(stream, 30.0), Player(stream, 30.0)
    stream.unsubscribe(recorder.subscriber)
    stream.tap(recorder.subscriber, 30.0)
    send(stream, 30, 31)
    assert pictures(player) == [30.0, 30.5]
    assert pictures(recorder)[-2:] == [30.0, 30.5]


@pytest.mark.parametrize("keys", [range(0, 100, 20), (0, 3, 8, 10, 14, 31, 33)], ids=["seldom", "a still scene"])
def test_long_groups_of_pictures_are_waited_for(keys: Iterable[int]) -> None:
    """x264 marks one of 250 pictures at least, which are 17 s at 15 a second."""
    stream = on_air(NO_CACHE)
    marked = frozenset(keys)
    waiting = Player(stream)
    send(stream, 0, 26, keys=marked)
    stream.mute(waiting.subscriber, frozenset({"video"}), 26.0)
    stream.mute(waiting.subscriber, frozenset(), 26.0)
    waiting.read()
    late = Player(stream, 26.0)
    next_at = min(at for at in marked if at >= 26)
    send(stream, 26, next_at + 1, keys=marked)
    assert pictures(waiting) == pictures(late) == [next_at, next_at + 0.5]


def test_keyframes_that_came_and_come_no_more_are_waited_for_longer() -> None:
    stream = on_air(NO_CACHE)
    player = Player(stream)
    keys = frozenset((0, 2, 4))
    send(stream, 0, 5, keys=keys)
    stream.mute(player.subscriber, frozenset({"video"}), 5.0)
    stream.mute(player.subscriber, frozenset(), 5.0)
    player.read()
    send(stream, 5, 37, keys=keys)
    assert pictures(player)[0] == 35.0, "thirty seconds, and the tick after them"


@pytest.mark.parametrize("joins", [0, 32], ids=["slow", "not slow"])
def test_pictures_that_are_wanted_again_come_at_once(joins: int) -> None:
    """The next tick is not waited for."""
    stream = on_air(NO_CACHE)
    send(stream, 0, joins)
    player = Player(stream, float(joins), limits=QueueLimits(messages=40))
    send(stream, joins, 33)
    assert bool(player.subscriber.sheds) == (joins == 0)
    stream.mute(player.subscriber, ALL_KINDS, 33.0)
    send(stream, 33, 34)
    stream.mute(player.subscriber, frozenset(), 34.0)
    stream.video(34_250, inter(99), 34.25)
    assert pictures(player) == [34.25]


def test_a_player_that_was_too_slow_sees_pictures_again() -> None:
    stream = on_air(NO_CACHE)
    player = Player(stream, limits=QueueLimits(messages=60))
    send(stream, 0, 45)
    assert player.subscriber.sheds > 0
    player.read()
    send(stream, 45, 56)
    player.read()
    send(stream, 56, 57)
    assert pictures(player) == [56.0, 56.5]
