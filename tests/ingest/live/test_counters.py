"""What is counted of a stream, and of all of a node's: it only grows, whoever publishes and plays."""

from ingest.contracts import MediaCounters
from ingest.live import LiveSettings, QueueLimits, Registry, Tick, TickReport
from tests.ingest.live.payloads import LABELS, START_WALL, Player, keyframe, make_registry, publisher, sound


def tick(registry: Registry, now: float) -> TickReport:
    made = Tick(registry, now)
    assert made.advance(now, START_WALL + now)
    return made.told


def counters(received_bytes: int, sent_bytes: int, frames: int, dropped_frames: int = 0) -> MediaCounters:
    return {
        "received_bytes": received_bytes,
        "sent_bytes": sent_bytes,
        "video_frames": frames,
        "audio_frames": frames,
        "dropped_frames": dropped_frames,
    }


def test_they_go_on_over_publishers_and_stay_with_the_node() -> None:
    registry = make_registry(LiveSettings(absence_s=2.0))
    stream = registry.get_or_create("live/demo", LABELS)
    player = Player(stream)
    found = []
    for session, begins in (("one", 0.0), ("two", 10.0)):
        stream.start(publisher(session), begins)
        stream.video(0, keyframe(0, 100), begins + 0.1)
        stream.audio(0, sound(0, 20), begins + 0.1)
        player.read()
        tick(registry, begins + 1.0)
        stream.stop(session, begins + 2.0)
        (shown,) = tick(registry, begins + 3.0).streams
        found.append(shown["counters"])
    # Each message has 12 bytes of header on its way to a player.
    assert found == [counters(120, 144, 1), counters(240, 288, 2)]
    stream.unsubscribe(player.subscriber)
    for now in (20.0, 21.0, 23.0):
        told = tick(registry, now)
    assert (told.streams, told.counters) == ([], counters(240, 288, 2))
    again = registry.get_or_create("live/demo", LABELS)
    again.start(publisher("three"), 24.0)
    again.audio(0, sound(0, 20), 24.5)
    assert tick(registry, 25.0).counters == {**counters(260, 288, 2), "audio_frames": 3}


def test_a_player_that_has_left_is_still_in_them() -> None:
    registry = make_registry()
    stream = registry.get_or_create("live/demo", LABELS)
    stream.start(publisher(), 0.0)
    slow = Player(stream, limits=QueueLimits(messages=2))
    for number in range(6):
        stream.video(40 * number, keyframe(number, 100), 0.04 * number)
    lost = slow.subscriber.dropped_frames
    assert lost > 0
    stream.unsubscribe(slow.subscriber)
    assert tick(registry, 1.0).streams[0]["counters"]["dropped_frames"] == lost
    assert tick(registry, 2.0).counters["dropped_frames"] == lost
