"""A stream's players on other nodes, as those tell of them."""

from typing import Any

from ingest.live import QueueLimits, Subscriber
from ingest.live.counters import Audience
from ingest.live.relayed import RelayedAudience


def relay() -> Subscriber:
    return Subscriber(1, QueueLimits(), lambda _: None, passes_on_to="node")


def tell(beyond: RelayedAudience, by: Subscriber, *, now: float = 0.0, **figures: Any) -> None:
    beyond.tell(by, Audience(**figures), now)


def test_a_node_that_comes_again_takes_its_own_place() -> None:
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
