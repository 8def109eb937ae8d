"""Who is given a live stream's messages: its players and taps, by kind of message; and what the players were sent."""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from ingest.live.counted import Audience
from ingest.live.shared import Kind
from ingest.live.subscriber import Subscriber

ALL_KINDS: Final[frozenset[Kind]] = frozenset(("video", "audio", "data"))

Several = tuple[Subscriber, ...]


class Takers:
    """For each kind of message those whom the fan-out goes through.

    A change only forgets them, and the next message has a tuple made of them: players may come, go and pause as often
    as they like between two messages.
    """

    __slots__ = ("_departed", "_muted", "_parted", "_players", "_several", "_taps", "_unmade", "audio", "data", "video")

    video: Iterable[Subscriber]
    audio: Iterable[Subscriber]
    data: Iterable[Subscriber]
    """Tuples, or what becomes one. False, if it is known that there is nobody."""

    def __init__(self) -> None:
        self._players: dict[Subscriber, None] = {}
        self._several: Several | None = ()
        """The players, as long as no other comes or goes."""
        self._departed = Audience()
        """What those were sent that have left."""
        self._taps: dict[Subscriber, None] = {}
        self._muted: dict[Kind, set[Subscriber]] = {kind: set() for kind in ALL_KINDS}
        """The players that are not sent a kind of message."""
        self._parted: dict[tuple[Kind, int], dict[int, Several]] = {}
        self._unmade = {kind: Unmade(self, kind) for kind in ALL_KINDS}
        self.video = self.audio = self.data = ()

    @property
    def players(self) -> Several:
        if self._several is None:
            self._several = tuple(self._players)
        return self._several

    @property
    def count(self) -> int:
        """How many of the players are counted as such."""
        return sum(player.is_counted for player in self.players)

    @property
    def everyone(self) -> Several:
        """The players, and who gets the media without being one: recorders."""
        return (*self._taps, *self.players)

    def of(self, kind: Kind) -> Iterable[Subscriber]:
        return {"video": self.video, "audio": self.audio, "data": self.data}[kind]

    def make(self, kind: Kind) -> Several:
        """The tuple, which is kept until something changes."""
        muted = self._muted[kind]
        players = [player for player in self._players if player not in muted] if muted else self.players
        made = (*self._taps, *players)
        setattr(self, kind, made)
        return made

    def parted(self, kind: Kind, needs: int) -> dict[int, Several]:
        """Them by what they lack of a message's needs (flags of CapsEx; 0: nothing), until something changes."""
        found = self._parted.get((kind, needs))
        if found is None:
            parts: dict[int, list[Subscriber]] = {}
            for taker in self.of(kind):
                parts.setdefault(needs & ~taker.takes, []).append(taker)
            found = self._parted[kind, needs] = {lacking: tuple(part) for lacking, part in parts.items()}
        return found

    def join(self, player: Subscriber) -> None:
        self._players[player] = None
        self._several = None
        self._forget(ALL_KINDS)

    def leave(self, player: Subscriber) -> None:
        """What it was sent stays in the figures."""
        if player not in self._players:
            return
        del self._players[player]
        self._departed = _joined(self._departed, (player,))
        self._several = None
        for kind in player.muted:
            self._muted[kind].discard(player)
        self._forget(ALL_KINDS)

    def tap(self, tap: Subscriber) -> None:
        self._taps[tap] = None
        self._forget(ALL_KINDS)

    def untap(self, tap: Subscriber) -> None:
        self._taps.pop(tap, None)
        self._forget(ALL_KINDS)

    def mute(self, player: Subscriber, kinds: frozenset[Kind], now: float) -> dict[Kind, float]:
        """The player is sent all kinds but these. Gives those that it was not sent until now, and since when."""
        former = player.muted
        player.muted = {kind: former.get(kind, now) for kind in kinds}
        wanted = {kind: since for kind, since in former.items() if kind not in kinds}
        for kind in wanted:
            self._muted[kind].discard(player)
        for kind in kinds - former.keys():
            self._muted[kind].add(player)
        self._forget(kinds ^ former.keys())
        return wanted

    def audience(self, now: float) -> Audience:
        """The players' figures, those that left included in what was sent and dropped."""
        slow = sum(1 for player in self.players if player.is_slow(now) and player.is_counted)
        return _joined(self._departed, self.players, count=self.count, slow=slow)

    def _forget(self, kinds: Collection[Kind]) -> None:
        self._parted.clear()
        for kind in kinds:
            setattr(self, kind, self._unmade[kind])


class Unmade:
    """In a tuple's place until the first message goes through it, so that the media path needs not ask."""

    __slots__ = ("_kind", "_takers")

    def __init__(self, takers: Takers, kind: Kind) -> None:
        self._takers = takers
        self._kind = kind

    def __iter__(self) -> Iterator[Subscriber]:
        return iter(self._takers.make(self._kind))


def _joined(before: Audience, players: Several, *, count: int = 0, slow: int = 0) -> Audience:
    return Audience(
        players=count,
        slow_players=slow,
        out_bytes=before.out_bytes + sum(player.sent_bytes for player in players),
        dropped_frames=before.dropped_frames + sum(player.dropped_frames for player in players),
    )
