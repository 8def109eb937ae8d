"""What is kept of all of a node's streams for players that come late: its bound, and who gives way."""

from dataclasses import dataclass

import pytest

from ingest.live import LiveSettings, LiveStream, Registry
from ingest.rtmp.media import ExtendedVideo, write_video
from tests.ingest.live.extended import MANY, delayed, picture, together
from tests.ingest.live.payloads import (
    HEADERS,
    LABELS,
    Player,
    inter,
    keyframe,
    make_registry,
    make_stream,
    publisher,
    send_headers,
)

KIB = 1024
MIB = 1024 * KIB
NODE_BYTES = 4 * MIB


@dataclass
class Camera:
    stream: LiveStream
    keyframe: int
    frame: int
    """Bytes of each."""
    number: int = 0

    def send(self, *, key: bool = False) -> None:
        self.number += 1
        at = self.number * 40
        payload = keyframe(self.number, self.keyframe) if key else inter(self.number, self.frame)
        self.stream.video(at, payload, at / 1000)


def camera(registry: Registry, name: str, keyframe: int, frame: int) -> Camera:
    stream = registry.get_or_create(f"live/{name}", LABELS)
    stream.start(publisher(name), 0.0)
    send_headers(stream)
    return Camera(stream, keyframe, frame)


def make(caches_bytes: int = NODE_BYTES) -> Registry:
    return make_registry(LiveSettings(caches_bytes=caches_bytes))


def pictures(stream: LiveStream) -> int:
    """How many a player is given that comes now."""
    player = Player(stream)
    found = [payload for payload in player.payloads() if payload not in HEADERS]
    stream.unsubscribe(player.subscriber)
    return len(found)


def test_the_largest_give_way_and_the_small_stay_whole() -> None:
    registry = make()
    small = [camera(registry, f"small-{number}", 8000, 500) for number in range(10)]
    large = [camera(registry, f"large-{number}", 300_000, 40_000) for number in range(10)]
    caches = registry.caches
    for _ in range(3):
        for number in range(20):
            for each in (*large, *small):
                each.send(key=number == 0)
                assert caches.held_bytes <= NODE_BYTES
    assert caches.dropped > 0
    assert caches.held_bytes > NODE_BYTES // 2, "what fits is kept"
    assert [pictures(each.stream) for each in small] == [20] * 10
    kept = [pictures(each.stream) for each in large]
    assert set(kept) == {0, 20}, "whole, or waiting for a keyframe"
    assert caches.held_bytes <= NODE_BYTES
    for each in large:
        each.send(key=True)
    assert caches.held_bytes <= NODE_BYTES
    for each in (*large, *small):
        each.stream.stop(each.stream.name, 3.0)
    assert caches.held_bytes == 0


def test_larger_ones_give_way_to_smaller_ones_and_never_the_reverse() -> None:
    registry = make()
    small = [camera(registry, f"small-{number}", 900_000, 1000) for number in range(4)]
    large = camera(registry, "large", 1 * MIB, 1 * MIB)
    for each in small:
        each.send(key=True)
    large.send(key=True)
    assert registry.caches.dropped == 1
    assert [pictures(each.stream) for each in (*small, large)] == [1] * 4 + [0]
    small[0].stream.stop("small-0", 1.0)
    large.send(key=True)
    assert pictures(large.stream) == 1
    late = camera(registry, "late", 900_000, 1000)
    late.send(key=True)
    assert registry.caches.dropped == 2
    assert [pictures(each.stream) for each in (*small[1:], late, large)] == [1] * 4 + [0]


def test_one_stream_alone_has_no_more_than_all_and_is_kept_again_once_it_is_smaller() -> None:
    registry = make()
    only = camera(registry, "only", 1 * MIB, 1 * MIB)
    only.send(key=True)
    only.send()
    assert pictures(only.stream) == 2
    only.send()
    only.send()
    assert pictures(only.stream) == 0
    assert (registry.caches.held_bytes, registry.caches.dropped) == (0, 1)
    only.send(key=True)
    assert pictures(only.stream) == 1


def test_what_late_players_share_counts_and_is_not_kept_without_room() -> None:
    """In all forms: payload, chunks, and the tag of who watches by HTTP."""
    registry = make()
    first = camera(registry, "first", 500_000, 1000)
    first.send(key=True)
    held = registry.caches.held_bytes
    sharing = [Player(first.stream).subscriber.take()[-1] for _ in range(2)]
    assert sharing[0] is sharing[1]
    assert registry.caches.held_bytes >= held + 1_500_000
    first.send(key=True)
    assert registry.caches.held_bytes == held, "the next group of pictures has none yet"
    second = camera(registry, "second", 3_000_000, 1000)
    second.send(key=True)
    held = registry.caches.held_bytes
    apart = [Player(first.stream).subscriber.take()[-1] for _ in range(2)]
    assert apart[0] == apart[1]
    assert apart[0] is not apart[1]
    assert registry.caches.held_bytes == held
    assert pictures(second.stream) == 1, "who joins takes no room from other streams"
    assert registry.caches.dropped == 0


def test_what_late_players_share_gives_way_before_a_group_of_pictures() -> None:
    registry = make()
    one, other = camera(registry, "one", 600_000, 600_000), camera(registry, "other", 1 * MIB, 1000)
    one.send(key=True)
    other.send(key=True)
    assert pictures(one.stream) == 1
    one.send()
    assert (pictures(one.stream), pictures(other.stream), registry.caches.dropped) == (2, 1, 0)


@pytest.mark.parametrize(
    ("message", "variants"),
    [
        (picture(1, key=True), 1),
        (delayed(picture(1, key=True)), 2),
        (delayed(together(MANY, picture(1, key=True), picture(2, 1))), 4),
    ],
)
def test_what_others_are_sent_in_a_messages_place_counts_too(message: ExtendedVideo, variants: int) -> None:
    registry = make()
    stream = camera(registry, "one", 0, 0).stream
    payload = write_video(message)
    stream.video(0, payload, 0.0)
    held = registry.caches.held_bytes
    assert pictures(stream) == 1
    assert registry.caches.held_bytes == held + 3 * variants * len(payload)


def test_headers_are_bounded_in_bytes() -> None:
    def header(track: int, size: int) -> bytes:
        return (b"\x96\x00avc1" + bytes((track,))).ljust(size, b"h")

    stream = make_stream()
    stream.start(publisher(), 0.0)
    early = Player(stream)
    headers = [header(track, 900 * KIB) for track in range(3)]
    for each in headers:
        stream.video(0, each, 0.0)
    assert Player(stream).payloads() == headers[:2]
    longer = header(0, 1500 * KIB)
    stream.video(0, longer, 0.0)
    assert Player(stream).payloads() == headers[1:2], "the former one is true no more"
    shorter = header(0, 100)
    stream.video(0, shorter, 0.0)
    assert Player(stream).payloads() == [shorter, headers[1]]
    assert early.payloads() == [*headers[:2], shorter]
