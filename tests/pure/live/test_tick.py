"""The registry, what a node tells each second, and what is counted of a stream and of all: that only grows."""

import json

import pytest

from ingest.contracts import MediaCounters
from ingest.live import LiveSettings, LiveStream, QueueLimits, Registry, Tick, TickReport
from tests.pure.live.payloads import (
    AAC_HEADER,
    LABELS,
    START_WALL,
    Player,
    avc_header,
    inter,
    keyframe,
    make_registry,
    publisher,
    relay,
    sound,
)

IDENTITY = ("id", "app", "name", "state", "health", "issues", "players", "node")


def tick(registry: Registry, now: float) -> TickReport:
    """A whole one at once."""
    found = Tick(registry, now)
    assert found.advance(now, START_WALL + now)
    return found.report


@pytest.fixture
def registry() -> Registry:
    return make_registry()


@pytest.fixture
def stream(registry: Registry) -> LiveStream:
    """One that is published."""
    made = registry.get_or_create("live/demo", LABELS)
    made.start(publisher(), 0.0)
    return made


def test_a_stream_is_made_once(registry: Registry) -> None:
    assert registry.get("live/demo") is None
    stream = registry.get_or_create("live/demo", LABELS)
    assert registry.get("live/demo") is stream
    assert registry.get_or_create("live/demo", LABELS) is stream
    assert (stream.app, stream.name) == ("live", "demo")
    assert registry.get_or_create("live/other", LABELS) is not stream


def test_unused_stream_is_removed_after_the_absence_time() -> None:
    registry = make_registry(LiveSettings(absence_s=60.0))
    used = registry.get_or_create("live/used", LABELS)
    used.start(publisher(), 0.0)
    watched = registry.get_or_create("live/watched", LABELS)
    player = Player(watched)
    left = registry.get_or_create("live/left", LABELS)
    left.start(publisher("session-2"), 0.0)
    left.stop("session-2", 10.0)
    for now in range(10, 71):
        tick(registry, float(now))
    # Its last sample was handed out at 10 s, so it is first seen idle at 11 s.
    assert set(registry.streams) == {"live/used", "live/watched", "live/left"}
    tick(registry, 72.0)
    assert set(registry.streams) == {"live/used", "live/watched"}
    used.stop("session-1", 72.0)
    watched.unsubscribe(player.subscriber)
    tick(registry, 73.0)
    Player(watched, 100.0)
    for now in range(74, 200):
        tick(registry, float(now))
    assert set(registry.streams) == {"live/watched"}


def test_encoder_name_of_a_stream_and_its_samples_follows_the_metadata(registry: Registry) -> None:
    """Where they come after its first sample, its samples keep to the name that it had."""
    generic, own = "FMLE/3.0 (compatible; FMSc/1.0)", "obs-output module"
    for name in ("early", "late"):
        who = publisher(name)
        who.encoder = generic
        registry.get_or_create(f"live/{name}", LABELS).start(who, 0.0)

    def describe(name: str, now: float) -> None:
        registry.streams[f"live/{name}"].data(0, "onMetaData", [{"encoder": own}], b"metadata", now)

    def called(now: float) -> dict[str, tuple[str, str | None]]:
        found = tick(registry, now)
        samples = {sample.name: sample.encoder for sample in found.samples}
        return {card["name"]: (card["encoder"], samples[card["name"]]) for card in found.streams}

    describe("early", 0.1)
    assert called(1.0) == {"early": (own, own), "late": (generic, generic)}
    describe("late", 1.1)
    assert called(2.0) == {"early": (own, own), "late": (own, generic)}


def test_snapshot_of_a_live_stream_has_identity_figures_and_media() -> None:
    registry = make_registry(LiveSettings(warm_up_s=60.0))
    stream = registry.get_or_create("live/demo", LABELS)
    stream.start(publisher(target_kbps=None), 0.0)
    stream.data(0, "onMetaData", [{"videodatarate": 2500.0, "framerate": 30.0}], b"metadata", 0.0)
    relay(stream, (0, AAC_HEADER), (0, avc_header()))
    Player(stream)
    for second in range(12):
        size = 1000 if second < 5 else 3000
        relay(stream, (second * 1000, keyframe(second, size)), (second * 1000, sound(second, 100)), now=second + 0.1)
        found = tick(registry, second + 1.0)
        if second == 7:
            # Five seconds: two of 1000 bytes and three of 3000.
            assert found.streams[0]["video_kbps"] == 8 * (2 * 1000 + 3 * 3000) / 5 / 1000
    (card,) = found.streams
    assert {key: value for key, value in card.items() if key in IDENTITY} == {
        "id": 7,
        "app": "live",
        "name": "demo",
        "state": "live",
        "health": "none",
        "issues": [],
        "players": 1,
        "node": "node-1",
    }
    assert (card["session_id"], card["since"], card["address"], card["encoder"]) == (
        "session-1", START_WALL, "192.0.2.7", "test encoder"
    )  # fmt: skip
    assert (card["target_kbps"], card["video_kbps"], card["audio_kbps"]) == (2500, 24.0, 0.8)
    assert (card["fps"], card["keyframe_interval"], card["open_gop_age"], card["idle_ms"]) == (1.0, 1.0, 0.9, 900)
    assert card["media"]["width"] == 1920
    assert card["metadata"] == {"videodatarate": 2500, "framerate": 30}
    json.dumps(found.streams, allow_nan=False)


def test_in_its_first_seconds_a_stream_is_not_said_to_be_good(registry: Registry) -> None:
    stream = registry.get_or_create("live/demo", LABELS)
    stream.start(publisher(), 0.0)

    def card(now: float) -> tuple[str, int | None]:
        relay(stream, (round(now * 1000), keyframe(0)), (round(now * 1000), sound(0)), now=now)
        (found,) = tick(registry, now).streams
        return found["health"], found["checking_s"]

    relay(stream, (0, AAC_HEADER), (0, avc_header()))
    assert [card(now) for now in (1.0, 2.5, 9.0)] == [("none", 9), ("none", 8), ("none", 1)]
    assert card(10.0) == ("good", None)
    stream.stop("session-1", 10.5)
    (found,) = tick(registry, 11.0).streams
    assert (found["health"], found["checking_s"]) == ("none", None)


def test_flapping_stream_has_warning_health_during_warm_up(registry: Registry) -> None:
    stream = registry.get_or_create("live/demo", LABELS)
    stream.start(publisher(publishes=[START_WALL - 10.0, START_WALL - 20.0]), 0.0)
    relay(stream, (0, keyframe(0)), now=0.5)
    (found,) = tick(registry, 1.0).streams
    assert (found["health"], found["checking_s"]) == ("warning", 9)


def test_the_target_of_the_key_comes_before_the_metadata(registry: Registry) -> None:
    stream = registry.get_or_create("live/demo", LABELS)
    stream.start(publisher(target_kbps=6000), 0.0)
    stream.data(0, "onMetaData", [{"videodatarate": 2500.0}], b"metadata", 0.0)
    assert tick(registry, 1.0).streams[0]["target_kbps"] == 6000


def test_stream_states_and_null_fields_follow_publishers_and_players(registry: Registry) -> None:
    stream = registry.get_or_create("live/demo", LABELS)

    def card(now: float) -> tuple[str, str, float | None, str | None]:
        (found,) = tick(registry, now).streams
        return found["state"], found["health"], found["video_kbps"], found["session_id"]

    assert card(0.0) == ("offline", "none", None, None)
    player = Player(stream)
    assert card(1.0) == ("waiting", "none", None, None)
    stream.start(publisher(), 1.5)
    assert card(2.0) == ("waiting", "none", None, "session-1")
    stream.video(0, keyframe(0, 125), 2.5)
    assert card(3.0) == ("live", "none", round(8 * 125 / 1.5 / 1000, 3), "session-1")
    stream.stop("session-1", 3.5)
    assert card(4.0) == ("waiting", "none", None, None)
    stream.unsubscribe(player.subscriber)
    assert card(5.0) == ("offline", "none", None, None)


def test_a_publisher_that_never_sends_is_starving(registry: Registry, stream: LiveStream) -> None:
    tick(registry, 9.0)
    (found,) = tick(registry, 12.0).streams
    assert (found["state"], found["health"], [issue["check"] for issue in found["issues"]]) == (
        "waiting", "bad", ["starving"]
    )  # fmt: skip


def test_tick_reports_the_queue_and_counts_of_a_player(registry: Registry, stream: LiveStream) -> None:
    player = Player(stream)
    stream.video(0, keyframe(0, 100), 0.1)
    player.subscriber.take()
    stream.video(33, keyframe(1, 100), 0.2)
    stream.video(66, keyframe(2, 100), 0.5)
    assert tick(registry, 1.0).players == [
        {
            "session_id": "player",
            "path": "live/demo",
            "out_bytes": 112,
            "dropped_frames": 0,
            "queued_ms": 300,
            "dropped_video": 0,
            "dropped_audio": 0,
            "sheds": 0,
        }
    ]


def test_tick_lists_the_five_slowest_players_worst_first(registry: Registry, stream: LiveStream) -> None:
    Player(stream)
    slow = [Player(stream, limits=QueueLimits(messages=limit)) for limit in range(2, 10)]
    for number in range(20):
        relay(stream, (40 * number, keyframe(number, 100)), (40 * number, sound(number)), now=0.04 * number)
    (shown,) = tick(registry, 1.0).streams
    assert len(shown["slowest"]) == 5
    most = max(each.subscriber.dropped_frames for each in slow)
    first = shown["slowest"][0]
    assert first["dropped_video"] + first["dropped_audio"] == most > 0
    assert (first["session_id"], first["sheds"] > 0, first["queued_ms"] >= 0) == ("player", True, True)


def test_player_that_has_just_joined_is_not_among_the_slowest(registry: Registry, stream: LiveStream) -> None:
    for number in range(5):
        relay(stream, (1000 * number, keyframe() if not number else inter()), now=float(number))
    player = Player(stream, 4.0)
    (shown,) = tick(registry, 4.5).streams
    assert player.subscriber.behind_ms > 1500
    assert (shown["slow_players"], shown["slowest"]) == (0, [])


def test_samples_of_all_streams(registry: Registry) -> None:
    for number in range(3):
        stream = registry.get_or_create(f"live/cam{number}", {"stream": number, "key": number})
        session = publisher(f"session-{number}")
        session.labels = {"stream": number, "key": number}
        stream.start(session, 0.0)
    found = tick(registry, 1.0)
    assert [(sample.session, sample.name, sample.stream) for sample in found.samples] == [
        (f"session-{number}", f"cam{number}", number) for number in range(3)
    ]
    assert len(found.streams) == 3


def test_a_tick_goes_on_in_portions_while_streams_come_and_go(registry: Registry) -> None:
    streams = [registry.get_or_create(f"live/cam{number}", LABELS) for number in range(5)]
    for number, stream in enumerate(streams):
        stream.start(publisher(f"session-{number}"), 0.0)
    found = Tick(registry, 1.0)
    assert not found.advance(1.0, START_WALL, 2)
    streams[0].stop("session-0", 1.1)  # It was told of; its last sample is for the next tick.
    streams[4].stop("session-4", 1.2)
    registry.get_or_create("live/late", LABELS).start(publisher("session-late"), 1.3)
    assert not found.advance(1.4, START_WALL, 2)
    assert found.advance(1.5, START_WALL, 2)
    assert [sample.session for sample in found.report.samples] == [f"session-{number}" for number in range(5)]
    assert [sample.elapsed_ms for sample in found.report.samples] == [1000, 1000, 1400, 1400, 1200]
    following = tick(registry, 2.0).samples
    assert [(sample.session, sample.elapsed_ms) for sample in following] == [
        ("session-0", 100), ("session-1", 1000), ("session-2", 600), ("session-3", 600), ("session-late", 700)
    ]  # fmt: skip


def counters(received_bytes: int, sent_bytes: int, frames: int, dropped_frames: int = 0) -> MediaCounters:
    return {
        "received_bytes": received_bytes,
        "sent_bytes": sent_bytes,
        "video_frames": frames,
        "audio_frames": frames,
        "dropped_frames": dropped_frames,
    }


def test_counters_go_on_over_publishers_and_stay_with_the_node() -> None:
    registry = make_registry(LiveSettings(absence_s=2.0))
    stream = registry.get_or_create("live/demo", LABELS)
    player = Player(stream)
    found = []
    for session, begins in (("one", 0.0), ("two", 10.0)):
        stream.start(publisher(session), begins)
        relay(stream, (0, keyframe(0, 100)), (0, sound(0, 20)), now=begins + 0.1)
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


def test_counters_keep_the_frames_dropped_for_a_player_that_has_left(registry: Registry, stream: LiveStream) -> None:
    slow = Player(stream, limits=QueueLimits(messages=2))
    for number in range(6):
        stream.video(40 * number, keyframe(number, 100), 0.04 * number)
    lost = slow.subscriber.dropped_frames
    assert lost > 0
    stream.unsubscribe(slow.subscriber)
    assert tick(registry, 1.0).streams[0]["counters"]["dropped_frames"] == lost
    assert tick(registry, 2.0).counters["dropped_frames"] == lost
