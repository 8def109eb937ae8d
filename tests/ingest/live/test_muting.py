"""Players that are not sent everything: paused, or without sound or picture."""

import gc
import sys
from typing import Any

import pytest

from ingest.live import LiveStream
from ingest.live.message import Kind
from tests.ingest.live.payloads import (
    AAC_HEADER,
    Player,
    avc_header,
    inter,
    keyframe,
    make_stream,
    publisher,
    sound,
    sps,
)

ALL: frozenset[Kind] = frozenset(("video", "audio", "data"))
NONE: frozenset[Kind] = frozenset()
OTHER_HEADER = avc_header(sps(width_mbs=40, height_units=30))


def on_air() -> tuple[LiveStream, Player]:
    """A stream with headers and one player, which has them."""
    stream = make_stream()
    stream.start(publisher(), 0.0)
    stream.data(0, "onMetaData", [{}], b"metadata", 0.0)
    stream.video(0, avc_header(), 0.0)
    stream.audio(0, AAC_HEADER, 0.0)
    player = Player(stream)
    player.payloads()
    return stream, player


def send(stream: LiveStream, at: int, *, key: bool = False) -> None:
    """A frame of picture and of sound."""
    stream.video(at, keyframe(at) if key else inter(at), at / 1000)
    stream.audio(at, sound(at), at / 1000)


def test_a_paused_player_is_sent_nothing_and_nothing_counts_as_dropped() -> None:
    stream, player = on_air()
    send(stream, 100, key=True)
    stream.mute(player.subscriber, ALL, 0.1)
    assert player.payloads() == [], "what waited is not wanted any more"
    for at in range(200, 30_000, 100):
        send(stream, at, key=at % 1000 == 0)
    stream.data(30_000, "onCue", [], b"cue", 30.0)
    assert player.payloads() == []
    assert (player.subscriber.dropped_frames, player.subscriber.sheds) == (0, 0)
    assert not player.subscriber.is_slow(30.0)


def test_it_goes_on_at_a_keyframe_with_the_stream_s_time() -> None:
    stream, player = on_air()
    send(stream, 100, key=True)
    player.payloads()
    stream.mute(player.subscriber, ALL, 0.1)
    send(stream, 200)
    stream.mute(player.subscriber, NONE, 0.25)
    send(stream, 300)
    send(stream, 400, key=True)
    assert [(each.timestamp, each.payload) for each in player.read()] == [
        (300, sound(300)),
        (400, keyframe(400)),
        (400, sound(400)),
    ]


def test_headers_that_changed_meanwhile_are_sent_anew() -> None:
    stream, player = on_air()
    send(stream, 100, key=True)
    player.payloads()
    stream.mute(player.subscriber, ALL, 0.15)
    stream.video(200, OTHER_HEADER, 0.2)
    send(stream, 300, key=True)
    stream.mute(player.subscriber, NONE, 0.35)
    send(stream, 400)
    send(stream, 500, key=True)
    assert player.payloads() == [OTHER_HEADER, sound(400), keyframe(500), sound(500)]


def test_a_takeover_while_paused() -> None:
    stream, player = on_air()
    send(stream, 5000, key=True)
    player.payloads()
    stream.mute(player.subscriber, ALL, 5.1)
    stream.stop("session-1", 6.0)
    stream.start(publisher("session-2"), 7.0)
    stream.video(0, OTHER_HEADER, 7.1)
    stream.audio(0, AAC_HEADER, 7.1)
    stream.video(0, keyframe(1), 7.1)
    stream.mute(player.subscriber, NONE, 8.0)
    stream.video(40, inter(2), 8.1)
    stream.video(900, keyframe(3), 8.2)
    got = player.read()
    assert [each.payload for each in got] == [AAC_HEADER, OTHER_HEADER, keyframe(3)]
    assert all(each.timestamp > 5000 for each in got), "its time goes on"


@pytest.mark.parametrize("returns", [7.05, 9.0])
def test_a_publisher_that_comes_after_the_pause(returns: float) -> None:
    stream, player = on_air()
    send(stream, 5000, key=True)
    player.payloads()
    stream.mute(player.subscriber, ALL, 5.1)
    stream.stop("session-1", 6.0)
    stream.mute(player.subscriber, NONE, 7.0)
    stream.start(publisher("session-2"), returns)
    stream.video(0, OTHER_HEADER, returns)
    stream.video(0, keyframe(1), returns)
    assert player.payloads() == [OTHER_HEADER, keyframe(1)]


def test_without_picture() -> None:
    stream, player = on_air()
    stream.mute(player.subscriber, frozenset(("video",)), 0.05)
    send(stream, 100, key=True)
    stream.video(150, OTHER_HEADER, 0.15)
    send(stream, 200)
    assert player.payloads() == [sound(100), sound(200)]
    stream.mute(player.subscriber, NONE, 0.25)
    send(stream, 300)
    send(stream, 400, key=True)
    assert player.payloads() == [OTHER_HEADER, sound(300), keyframe(400), sound(400)]


def test_without_sound() -> None:
    stream, player = on_air()
    stream.mute(player.subscriber, frozenset(("audio",)), 0.05)
    send(stream, 100, key=True)
    stream.audio(150, AAC_HEADER, 0.15)
    assert player.payloads() == [keyframe(100)]
    stream.mute(player.subscriber, NONE, 0.25)
    send(stream, 300)
    assert player.payloads() == [AAC_HEADER, inter(300), sound(300)], "the picture went on all the time"


def test_a_pause_does_not_end_what_was_muted_before() -> None:
    stream, player = on_air()
    stream.mute(player.subscriber, frozenset(("video",)), 0.05)
    stream.video(60, OTHER_HEADER, 0.06)
    stream.mute(player.subscriber, ALL, 0.1)
    stream.mute(player.subscriber, frozenset(("video",)), 0.2)
    send(stream, 300, key=True)
    assert player.payloads() == [sound(300)]
    stream.mute(player.subscriber, NONE, 0.4)
    assert player.payloads() == [OTHER_HEADER], "it came when only the picture was unwanted"


def test_others_are_sent_all() -> None:
    stream, muted = on_air()
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
    stream, restless = on_air()
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
def test_a_storm_of_pauses_costs_the_same_whoever_else_plays(kind: Kind) -> None:
    assert cost_of_a_storm(500, kind) == cost_of_a_storm(5, kind)


def test_what_changes_nothing_costs_next_to_nothing() -> None:
    assert cost_of_a_storm(500, None) < 3000


def test_many_leave_at_the_cost_of_each() -> None:
    """Also while one is paused."""
    costs = []
    for players in (5, 500):
        stream, paused = on_air()
        others = [Player(stream) for _ in range(players)]
        stream.mute(paused.subscriber, ALL, 0.05)
        with Calls() as calls:
            for other in others:
                stream.unsubscribe(other.subscriber)
        costs.append(calls.count / players)
        assert stream.subscribers == (paused.subscriber,)
    assert round(costs[0]) == round(costs[1])
