"""A stream's players on other nodes, as those tell of them."""

from typing import Any

from ingest.live import QueueLimits, Registry, Subscriber, Tick, TickReport
from ingest.live.counters import Audience
from ingest.live.relayed import RelayedAudience
from ingest.live.subscriber import PassesOnTo
from tests.pure.live import payloads
from tests.pure.live.payloads import LABELS, START_WALL, avc_header, keyframe, make_registry, publisher


def relay(passes_on_to: PassesOnTo = "node") -> Subscriber:
    return Subscriber(1, QueueLimits(), lambda _: None, is_counted=False, passes_on_to=passes_on_to)


def report(registry: Registry, now: float) -> TickReport:
    found = Tick(registry, now)
    assert found.advance(now, START_WALL + now)
    return found.report


def tell(beyond: RelayedAudience, by: Subscriber, *, now: float = 0.0, **figures: Any) -> None:
    beyond.tell(by, Audience(**figures), now)


def test_reconnected_node_replaces_its_former_audience() -> None:
    """Its former connection may be found to be dead much later."""
    beyond, former, new = RelayedAudience(), relay(), relay()
    beyond.join(former, "edge-1")
    tell(beyond, former, players=5, out_bytes=1000)
    beyond.join(new, "edge-1")
    assert beyond.total == Audience(out_bytes=1000)
    tell(beyond, new, players=6, out_bytes=10)
    tell(beyond, former, players=5, out_bytes=7)
    assert beyond.total == Audience(players=6, out_bytes=1010)
    assert beyond.nodes == [{"node": "edge-1", "players": 6}]
    beyond.leave(former)
    assert beyond.total == Audience(players=6, out_bytes=1010)
    beyond.leave(new)
    assert beyond.total == Audience(out_bytes=1010)


def test_players_of_a_node_that_tells_nothing_any_more_are_not_counted() -> None:
    """Its own players may have gone on to others before its connection is found to be dead."""
    beyond, silent, other = RelayedAudience(), relay(), relay()
    beyond.join(silent, "edge-1")
    beyond.join(other, "edge-2")
    tell(beyond, silent, now=10.0, players=5, slow_players=1, out_bytes=1000)
    tell(beyond, other, now=14.0, players=2, out_bytes=100)
    beyond.forget_silent(14.9)
    assert beyond.total == Audience(players=7, slow_players=1, out_bytes=1100)
    beyond.forget_silent(15.1)
    assert beyond.total == Audience(players=2, out_bytes=1100)
    tell(beyond, silent, now=16.0, players=4, out_bytes=10)
    assert beyond.total == Audience(players=6, out_bytes=1110)


def test_viewers_by_hls_are_players_of_the_node_that_packages_for_them() -> None:
    beyond, packaging, other = RelayedAudience(), relay("viewers"), relay()
    beyond.join(packaging, "")
    beyond.join(other, "edge-1")
    tell(beyond, packaging, now=1.0, players=9, viewers=9, out_bytes=900)
    tell(beyond, other, now=1.0, players=4, viewers=1, out_bytes=100)
    assert beyond.total == Audience(players=13, viewers=10, out_bytes=1000)
    assert beyond.here == Audience(players=9, viewers=9, out_bytes=900)
    assert beyond.nodes == [{"node": "edge-1", "players": 4}]
    tell(beyond, other, now=6.5, players=4, viewers=2)
    beyond.forget_silent(6.5)
    assert (beyond.total.players, beyond.total.viewers, beyond.here.viewers) == (4, 2, 0)
    beyond.leave(packaging)
    assert (beyond.here, beyond.total.out_bytes) == (Audience(out_bytes=900), 1000)


def test_packaged_stream_counts_the_bytes_of_viewers_not_of_the_packager() -> None:
    """On a node that fetches the stream and packages it."""
    registry = make_registry()
    stream = registry.get_or_create("live/demo", LABELS)
    stream.start(publisher(), 0.0)
    packaging = relay("viewers")
    stream.subscribe(packaging, 0.0)
    stream.beyond.join(packaging, "")
    payloads.relay(stream, (0, avc_header()), (0, keyframe(0, 1000)))
    packaging.take_messages(10**6)
    assert packaging.sent_bytes > 1000
    stream.beyond.tell(packaging, Audience(players=3, viewers=3, out_bytes=70), 0.5)
    found = report(registry, 1.0)
    (card,), (sample,) = found.streams, found.samples
    assert (card["players"], card["viewers"], card["relayed_to"]) == (3, 3, [])
    assert (sample.players, sample.viewers, sample.out_bytes) == (3, 3, 70)
    assert (found.viewers, found.counters["sent_bytes"]) == (3, 70)
    stream.unsubscribe(packaging)
    found = report(registry, 2.0)
    assert (found.samples[0].viewers, found.viewers, found.counters["sent_bytes"]) == (0, 0, 70)


def test_relayed_keyframe_interval_does_not_apply_to_the_next_publisher() -> None:
    live = make_registry().get_or_create("live/cam", LABELS)
    live.told_keyframes_s = 2.0
    one = publisher()
    live.start(one, 0.0)
    assert live.keyframe_interval_s == 2.0
    live.stop(one.session_id, 1.0)
    live.start(publisher(), 2.0)
    assert live.keyframe_interval_s is None
