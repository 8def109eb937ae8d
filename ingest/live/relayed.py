"""A stream's players on other nodes, as those tell each second that relay it: so that who publishes it knows of all."""

from dataclasses import dataclass, field, replace
from typing import Final

from ingest.contracts import RelayedTo
from ingest.live.counters import Audience
from ingest.live.subscriber import Subscriber

NOBODY: Final = Audience()


@dataclass(eq=False, repr=False, slots=True)
class RelayedAudience:
    _nodes: dict[Subscriber, str] = field(default_factory=dict)
    """By relay."""
    _told: dict[Subscriber, Audience] = field(default_factory=dict)
    """The same, of those that have. Bytes and drops are sums since it came."""
    _departed: Audience = NOBODY
    """What relays that are gone had told of bytes and drops."""

    @property
    def total(self) -> Audience:
        return sum_audiences((self._departed, *self._told.values())) if self._told else self._departed

    @property
    def nodes(self) -> list[RelayedTo]:
        return [
            RelayedTo(node=node, players=self._told.get(relay, NOBODY).players) for relay, node in self._nodes.items()
        ]

    def join(self, relay: Subscriber, node: str) -> None:
        """A node has one relay of a stream, its latest: a former one may be dead, and not known to be."""
        for former in [each for each, its_node in self._nodes.items() if its_node == node]:
            self.leave(former)
        self._nodes[relay] = node

    def tell(self, relay: Subscriber, now: Audience) -> None:
        """Who plays by it now, and what they were sent, and was dropped for them, since it told the last time."""
        if relay not in self._nodes:
            return
        before = self._told.get(relay, NOBODY)
        self._told[relay] = replace(
            now,
            out_bytes=before.out_bytes + now.out_bytes,
            dropped_frames=before.dropped_frames + now.dropped_frames,
        )

    def leave(self, relay: Subscriber) -> None:
        self._nodes.pop(relay, None)
        told = self._told.pop(relay, None)
        if told is not None:
            told = replace(told, players=0, slow_players=0, losing_players=0)
            self._departed = sum_audiences((self._departed, told))


def sum_audiences(several: tuple[Audience, ...]) -> Audience:
    return Audience(
        players=sum(each.players for each in several),
        slow_players=sum(each.slow_players for each in several),
        losing_players=sum(each.losing_players for each in several),
        out_bytes=sum(each.out_bytes for each in several),
        dropped_frames=sum(each.dropped_frames for each in several),
    )
