"""What is kept of all of a node's streams for players that come late: its bound, and who gives way."""

from ingest.live import LiveSettings, LiveStream, Registry
from tests.ingest.live.payloads import LABELS, Player, inter, keyframe, make_registry, publisher

KIB = 1024
MIB = 1024 * KIB


def begin(registry: Registry, number: int) -> LiveStream:
    stream = registry.get_or_create(f"live/cam{number}", LABELS)
    stream.start(publisher(f"session-{number}"), 0.0)
    return stream


def test_over_the_bound_the_largest_groups_of_pictures_give_way() -> None:
    registry = make_registry(LiveSettings(caches_bytes=2 * MIB))
    streams = [begin(registry, number) for number in range(20)]
    sizes = [200] * 5 + [20_000] * 15
    for frame in range(20):
        make = inter if frame % 10 else keyframe
        for stream, size in zip(streams, sizes, strict=True):
            stream.video(40 * frame, make(frame, size), 0.04 * frame)
            assert registry.caches.held_bytes <= 2 * MIB
    assert registry.caches.dropped > 0
    given = [Player(stream, 0.8).payloads() for stream in streams]
    for size, payloads in zip(sizes, given, strict=True):
        group = [keyframe(10, size), *(inter(frame, size) for frame in range(11, 20))]
        assert payloads == group or (size > 200 and not payloads), "whole, or none of it"
    assert any(given[5:])
    assert sum(len(payload) for payloads in given for payload in payloads) <= 2 * MIB
    for number, stream in enumerate(streams):
        stream.stop(f"session-{number}", 1.0)
    assert registry.caches.held_bytes == 0


def test_one_that_is_too_large_for_the_node_is_kept_again_once_it_is_smaller() -> None:
    registry = make_registry(LiveSettings(caches_bytes=200 * KIB))
    stream = begin(registry, 0)
    stream.video(0, keyframe(0, 300_000), 0.0)
    stream.video(40, inter(1), 0.04)
    assert Player(stream, 0.05).payloads() == []
    stream.video(80, keyframe(2), 0.08)
    assert Player(stream, 0.09).payloads() == [keyframe(2)]


def test_what_late_players_share_counts_until_the_next_keyframe() -> None:
    registry = make_registry(LiveSettings(caches_bytes=2 * MIB))
    stream = begin(registry, 0)
    stream.video(0, keyframe(0, 300_000), 0.0)
    alone = registry.caches.held_bytes
    assert alone >= 300_000
    assert len(Player(stream, 0.1).payloads()) == len(Player(stream, 0.1).payloads()) == 1
    assert registry.caches.held_bytes >= alone + 300_000
    stream.video(40, keyframe(1, 300_000), 0.04)
    assert registry.caches.held_bytes == alone


def test_headers_are_bounded_in_bytes() -> None:
    def header(track: int, size: int) -> bytes:
        return (b"\x96\x00avc1" + bytes((track,))).ljust(size, b"h")

    stream = begin(make_registry(), 0)
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
