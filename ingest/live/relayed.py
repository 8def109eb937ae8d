"""A stream's players on other nodes, as those tell each second that relay it: so that who publishes it knows of all.

Viewers by HLS count here as well, on the node that packages the stream for them: none of them reads its log."""

from dataclasses import dataclass, field, replace
from typing import Final

from ingest.contracts import RelayedTo
from ingest.live.counters import Audience
from ingest.live.subscriber import Subscriber

NOBODY: Final = Audience()

SILENT_S: Final = 5.0
"""A node tells each second. One that has not for so long may be gone with its players, who may play by another by now;
its connection is found to be dead later."""


@dataclass(eq=False, repr=False, slots=True)
class RelayedAudience:
    _nodes: dict[Subscriber, str] = field(default_factory=dict)
    """By relay."""
    _told: dict[Subscriber, Audience] = field(default_factory=dict)
    """The same, of those that have. Bytes and drops are sums since it came."""
    _told_at: dict[Subscriber, float] = field(default_factory=dict)
    """When."""
    _departed: Audience = NOBODY
    """What relays that are gone had told of bytes and drops,"""
    _departed_here: Audience = NOBODY
    """and what packagings here had of that."""

    @property
    def total(self) -> Audience:
        return sum_audiences((self._departed, *self._told.values())) if self._told else self._departed

    @property
    def nodes(self) -> list[RelayedTo]:
        return [
            RelayedTo(node=node, players=self._told.get(relay, NOBODY).players)
            for relay, node in self._nodes.items()
            if relay.passes_on_to != "viewers"
        ]

    @property
    def here(self) -> Audience:
        """Of the total, this node's own viewers by HLS."""
        if not self._told:
            return self._departed_here
        own = (told for relay, told in self._told.items() if relay.passes_on_to == "viewers")
        return sum_audiences((self._departed_here, *own))

    def join(self, relay: Subscriber, node: str) -> None:
        """A node has one relay of a stream, its latest: a former one may be dead, and not known to be. `node`: "" of
        the packaging here."""
        for former in [each for each, its_node in self._nodes.items() if its_node == node]:
            self.leave(former)
        self._nodes[relay] = node

    def tell(self, relay: Subscriber, who: Audience, now: float) -> None:
        """Who plays by it now, and what they were sent, and was dropped for them, since it told the last time."""
        if relay not in self._nodes:
            return
        before = self._told.get(relay, NOBODY)
        self._told_at[relay] = now
        self._told[relay] = replace(
            who,
            out_bytes=before.out_bytes + who.out_bytes,
            dropped_frames=before.dropped_frames + who.dropped_frames,
        )

    def forget_silent(self, now: float) -> None:
        """Each second: who plays by a relay that tells nothing any more is not known."""
        for relay, told_at in list(self._told_at.items()):
            if now - told_at > SILENT_S:
                del self._told_at[relay]
                self._told[relay] = _without_players(self._told[relay])

    def leave(self, relay: Subscriber) -> None:
        self._nodes.pop(relay, None)
        self._told_at.pop(relay, None)
        told = self._told.pop(relay, None)
        if told is None:
            return
        told = _without_players(told)
        self._departed = sum_audiences((self._departed, told))
        if relay.passes_on_to == "viewers":
            self._departed_here = sum_audiences((self._departed_here, told))


def _without_players(told: Audience) -> Audience:
    return replace(told, players=0, viewers=0, slow_players=0, losing_players=0)


def sum_audiences(several: tuple[Audience, ...]) -> Audience:
    return Audience(
        players=sum(each.players for each in several),
        viewers=sum(each.viewers for each in several),
        slow_players=sum(each.slow_players for each in several),
        losing_players=sum(each.losing_players for each in several),
        out_bytes=sum(each.out_bytes for each in several),
        dropped_frames=sum(each.dropped_frames for each in several),
    )
