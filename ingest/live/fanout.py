"""Who is given a live stream's messages, and what they were sent: its players; or its taps, which are none.

Nearly all players of a stream have been given the same: they are at the *live edge*, and each batch of the log goes to
all of them as the same bytes. Nothing is counted for each: what one of them was sent is what all were sent, since it
came there. A player whose peer is behind, that has just joined, or is sent less than all, has a queue of its own, which
costs an append for each message; it is there again once that is empty (see `Subscriber`).
"""

from typing import Final

from ingest.live.counters import Audience
from ingest.live.message import ALL_EXTENSIONS, ExtendedMessage, Kind, SharedMessage
from ingest.live.player_queue import offer
from ingest.live.stream_log import StreamLog
from ingest.live.subscriber import Batch, Form, Given, Subscriber, Write

Several = tuple[Subscriber, ...]

CLOSELY: Final = 100
"""Of more players the kernel is asked only for those whose connection has more than it takes: it is a call each."""

ALL_KINDS: Final[frozenset[Kind]] = frozenset(("video", "audio", "data"))


class Fanout:
    """Of one stream, those that are given it at the same times. A change only forgets the tuples that the next batch
    goes through: they may come, go and pause as often as they like between two batches.
    """

    __slots__ = ("_at_edge", "_departed", "_given", "_groups", "_log", "_players", "_queued", "_several", "place")

    def __init__(self, log: StreamLog) -> None:
        self._log = log
        self._players: dict[Subscriber, None] = {}
        self._several: Several | None = ()
        """The players, as long as no other comes or goes."""
        self.place = log.place()
        """As far as they were given the log."""
        self._at_edge: dict[Subscriber, None] = {}
        self._groups: dict[Form, list[tuple[Write, Subscriber]]] | None = {}
        """Those at the live edge, by how they are given a batch."""
        self._queued: dict[tuple[Kind, int], dict[int, Several]] = {}
        """Those with a queue: by kind and needs of a message, and then by what they lack of the needs."""
        self._given = Given()
        self._departed = Audience()

    # --- Who there is ---

    @property
    def players(self) -> Several:
        if self._several is None:
            self._several = tuple(self._players)
        return self._several

    @property
    def count(self) -> int:
        """How many of the players are counted as such."""
        return sum(player.is_counted for player in self.players)

    def join(self, player: Subscriber) -> None:
        self._players[player] = None
        self._changed()

    def leave(self, player: Subscriber) -> None:
        if player in self._players:
            self.leave_live_edge(player)
            del self._players[player]
            self._departed = _joined(self._departed, (player,))
            self._changed()

    def mute(self, player: Subscriber, kinds: frozenset[Kind], now: float) -> dict[Kind, float]:
        """The player is sent all kinds but these. Gives those that it was not sent until now, and since when."""
        self.leave_live_edge(player)
        former = player.muted
        player.muted = {kind: former.get(kind, now) for kind in kinds}
        self._queued.clear()
        return {kind: since for kind, since in former.items() if kind not in kinds}

    def audience(self, now: float, kbps: float | None = None) -> Audience:
        """The players' figures, those that left included in what was sent and dropped. `kbps`: of the stream."""
        if not self._players:
            return self._departed
        slow = losing = 0
        closely = len(self.players) <= CLOSELY
        for player in self.players:
            if player.is_slow(now, kbps, closely=closely) and player.is_counted:
                slow += 1
                losing += player.is_losing
        return _joined(self._departed, self.players, count=self.count, slow=slow, losing=losing)

    # --- At the live edge or behind ---

    def catch_up(self, subscriber: Subscriber, *, without_video: bool) -> None:
        """Its queue is empty: it is at the live edge if it is to be given whatever the others are."""
        if not subscriber.can_join_live_edge(without_video=without_video):
            return
        if self._log.is_extended and ALL_EXTENSIONS & ~subscriber.takes:
            return
        if subscriber in self._players and subscriber not in self._at_edge:
            subscriber.join_live_edge(self._given)
            self._at_edge[subscriber] = None
            self._groups = None
            self._queued.clear()

    def leave_live_edge(self, subscriber: Subscriber) -> None:
        if subscriber in self._at_edge:
            del self._at_edge[subscriber]
            subscriber.leave_live_edge()
            self._groups = None
            self._queued.clear()

    def all_leave_live_edge(self) -> None:
        """What comes next is not for each of them."""
        for subscriber in list(self._at_edge):
            self.leave_live_edge(subscriber)

    # --- The media path ---

    def deliver(self, batch: Batch, main: dict[Kind, int]) -> None:
        """`main`: the main track of each kind."""
        behind = []
        for form, members in self._grouped().items():
            data = batch.form(form)
            for write, subscriber in members:
                try:
                    if not write(data):
                        behind.append(subscriber)
                except Exception:  # Our own fault: its queue meets it again, and that ends this player only.
                    behind.append(subscriber)
        for subscriber in behind:
            self.leave_live_edge(subscriber)
        self._given.add(batch)
        if len(self._at_edge) < len(self._players):
            for message in batch.messages:
                self._queue(message, main)

    def _grouped(self) -> dict[Form, list[tuple[Write, Subscriber]]]:
        groups = self._groups
        if groups is None:
            groups = self._groups = {}
            for subscriber in self._at_edge:
                if subscriber.write is not None:
                    groups.setdefault(subscriber.form, []).append((subscriber.write, subscriber))
        return groups

    def _queue(self, message: SharedMessage, main: dict[Kind, int]) -> None:
        kind, needs = message.kind, message.needs if isinstance(message, ExtendedMessage) else 0
        parts = self._queued.get((kind, needs))
        if parts is None:
            parts = self._queued[kind, needs] = self._part(kind, needs)
        for lacking, subscribers in parts.items():
            sent = message.plain(lacking, main[kind]) if isinstance(message, ExtendedMessage) else message
            if sent is not None:
                offer(sent, subscribers)

    def _part(self, kind: Kind, needs: int) -> dict[int, Several]:
        parts: dict[int, list[Subscriber]] = {}
        for subscriber in self._players:
            if not subscriber.is_at_live_edge and kind not in subscriber.muted:
                parts.setdefault(needs & ~subscriber.takes, []).append(subscriber)
        return {lacking: tuple(part) for lacking, part in parts.items()}

    def _changed(self) -> None:
        self._several = None
        self._queued.clear()
        self._log.be_read(self.place, bool(self._players))


def _joined(before: Audience, players: Several, *, count: int = 0, slow: int = 0, losing: int = 0) -> Audience:
    """What is dropped for another server is no loss of any player here. What is packaged for viewers by HLS is not
    sent: what they were sent is told beside it (`RelayedAudience`)."""
    return Audience(
        players=count,
        slow_players=slow,
        losing_players=losing,
        out_bytes=before.out_bytes + sum(player.sent_bytes for player in players if player.passes_on_to != "viewers"),
        dropped_frames=before.dropped_frames
        + sum(player.dropped_frames for player in players if player.passes_on_to != "server"),
    )
