"""What is kept for players that come late, of one stream and of all of a node's: its bound, and who gives way; the
keyframe that thumbnails are made of; and streams whose pictures are not marked as keyframes, as with intra refresh.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import pytest

from ingest.live import LiveSettings, LiveStream, QueueLimits, Registry
from ingest.live.fanout import ALL_KINDS
from ingest.live.gop_cache import Keyframe
from ingest.live.stream_log import LogLimits
from ingest.rtmp.media import ExtendedVideo, write_video
from tests.pure.live.payloads import (
    AAC_HEADER,
    HEADERS,
    LABELS,
    START_WALL,
    Player,
    avc_header,
    inter,
    keyframe,
    make_registry,
    on_air,
    publisher,
    relay,
    send_headers,
    sound,
    started,
)
from tests.pure.live.test_extended import MANY, delayed, picture, together

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


@pytest.fixture
def registry() -> Registry:
    return make_registry(LiveSettings(caches_bytes=NODE_BYTES))


def pictures(stream: LiveStream) -> int:
    """How many a player is given that comes now."""
    player = Player(stream)
    found = [payload for payload in player.payloads() if payload not in HEADERS]
    stream.unsubscribe(player.subscriber)
    return len(found)


def test_largest_stream_caches_are_dropped_and_small_ones_stay_whole(registry: Registry) -> None:
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


def test_larger_cache_is_dropped_for_smaller_ones_and_never_the_reverse(registry: Registry) -> None:
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


def test_single_stream_over_the_node_bound_is_dropped_until_a_smaller_gop(registry: Registry) -> None:
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


def test_shared_bytes_of_late_players_are_counted_and_kept_only_with_room(registry: Registry) -> None:
    """In all forms: payload, chunks, and the tag of who watches by HTTP."""
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


def test_shared_bytes_of_late_players_are_dropped_before_any_gop(registry: Registry) -> None:
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
def test_plain_variants_of_a_message_count_in_the_cached_bytes(
    registry: Registry, message: ExtendedVideo, variants: int
) -> None:
    stream = camera(registry, "one", 0, 0).stream
    payload = write_video(message)
    stream.video(0, payload, 0.0)
    held = registry.caches.held_bytes
    assert pictures(stream) == 1
    assert registry.caches.held_bytes == held + 3 * variants * len(payload)


def test_headers_are_bounded_in_bytes() -> None:
    def header(track: int, size: int) -> bytes:
        return (b"\x96\x00avc1" + bytes((track,))).ljust(size, b"h")

    stream = started()
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


MOST = 1_000_000


def test_the_last_keyframe_comes_with_the_headers_of_video() -> None:
    stream = started()
    relay(stream, (0, AAC_HEADER), (0, avc_header()))
    assert stream.cache.keyframe(-1.0, MOST) is None
    relay(stream, (0, keyframe(1)), (33, inter(2)))
    assert stream.cache.keyframe(-1.0, MOST) == Keyframe(0.0, [avc_header()], keyframe(1))
    relay(stream, (2000, keyframe(3)), (2010, sound(4)))
    assert stream.cache.keyframe(0.0, MOST) == Keyframe(2.0, [avc_header()], keyframe(3))
    assert stream.cache.keyframe(2.0, MOST) is None, "the same again"
    stream.stop("session-1", 3.0)
    assert stream.cache.keyframe(-1.0, MOST) is None


def test_keyframe_over_the_size_limit_is_not_copied() -> None:
    stream = started(LiveSettings(log=LogLimits(size_bytes=5000)))
    stream.video(0, keyframe(1, 4000), 0.0)
    assert stream.cache.keyframe(-1.0, 3999) is None
    assert stream.cache.keyframe(-1.0, 4000) is not None
    stream.video(33, keyframe(1, 6000), 1.0)
    assert stream.cache.keyframe(-1.0, MOST) is None


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


def picture_times(player: Player) -> list[float]:
    """When those were sent that the player has got, in seconds."""
    return [each.timestamp / 1000 for each in player.read() if each.type_id == 9 and each.payload not in HEADERS]


@pytest.mark.parametrize("keys", [NONE, frozenset({0})], ids=["none", "the first"])
def test_player_waiting_in_vain_for_a_keyframe_gets_pictures_after_10_s(
    keys: frozenset[int],
) -> None:
    stream = on_air(NO_CACHE)
    first, muted = Player(stream), Player(stream)
    send(stream, 0, 4, keys=keys)
    stream.mute(muted.subscriber, frozenset({"video"}), 4.0)
    stream.mute(muted.subscriber, frozenset(), 4.0)
    muted.read()
    late = Player(stream, 4.0)
    assert late.payloads() == HEADERS
    waiting = [late, muted] if keys else [first, late, muted]
    send(stream, 4, 11)
    assert [picture_times(player) for player in waiting] == [[]] * len(waiting)
    send(stream, 11, 13)
    assert [picture_times(player) for player in waiting] == [[11.0, 11.5, 12.0, 12.5]] * len(waiting)
    assert [player.subscriber.dropped_frames for player in waiting] == [0] * len(waiting), "what is withheld is no drop"


@pytest.mark.parametrize("keys", [NONE, frozenset({0})], ids=["none", "the first"])
def test_late_player_of_a_stream_without_keyframes_does_not_wait(keys: frozenset[int]) -> None:
    stream = on_air(NO_CACHE)
    send(stream, 0, 30, keys=keys)
    player, recorder = Player(stream, 30.0), Player(stream, 30.0)
    stream.unsubscribe(recorder.subscriber)
    stream.tap(recorder.subscriber, 30.0)
    send(stream, 30, 31)
    assert picture_times(player) == [30.0, 30.5]
    assert picture_times(recorder)[-2:] == [30.0, 30.5]


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
    assert picture_times(waiting) == picture_times(late) == [next_at, next_at + 0.5]


def test_player_waits_thirty_seconds_once_keyframes_have_stopped() -> None:
    stream = on_air(NO_CACHE)
    player = Player(stream)
    keys = frozenset((0, 2, 4))
    send(stream, 0, 5, keys=keys)
    stream.mute(player.subscriber, frozenset({"video"}), 5.0)
    stream.mute(player.subscriber, frozenset(), 5.0)
    player.read()
    send(stream, 5, 37, keys=keys)
    assert picture_times(player)[0] == 35.0, "thirty seconds, and the tick after them"


@pytest.mark.parametrize("joins", [0, 32], ids=["slow", "not slow"])
def test_unmuted_player_of_a_stream_without_keyframes_gets_video_at_once(joins: int) -> None:
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
    assert picture_times(player) == [34.25]


def test_a_player_that_was_too_slow_sees_pictures_again() -> None:
    stream = on_air(NO_CACHE)
    player = Player(stream, limits=QueueLimits(messages=60))
    send(stream, 0, 45)
    assert player.subscriber.sheds > 0
    player.read()
    send(stream, 45, 56)
    player.read()
    send(stream, 56, 57)
    assert picture_times(player) == [56.0, 56.5]
