"""Once a second: what a node tells of all its streams."""

from collections import deque
from dataclasses import dataclass, field

from ingest.contracts import MediaCounters, PlayerSample, Sample, StreamSnapshot
from ingest.live.counted import added
from ingest.live.registry import Registry
from ingest.live.snapshot import snapshot
from ingest.live.stream import LiveStream
from ingest.live.subscriber import Subscriber


@dataclass(slots=True)
class Told:
    """What the streams have to tell."""

    samples: list[Sample] = field(default_factory=list)
    streams: list[StreamSnapshot] = field(default_factory=list)
    players: list[PlayerSample] = field(default_factory=list)
    breaches: list[tuple[str, str]] = field(default_factory=list)
    """Publishers that stayed over their key's limit: the session's id, and why it must end."""
    unrecorded: int = 0
    """Publishers that are to be recorded, and are not just now."""
    counted: list[MediaCounters] = field(default_factory=list)
    """Of each stream, and of those that were forgotten."""

    @property
    def counters(self) -> MediaCounters:
        """Of all of the node's streams so far."""
        return added(self.counted)


class Tick:
    """One second's round of all streams. It is made in portions, since media has to be served between two of them.

    Streams long idle are forgotten as it begins; one that comes after that is told of in the next.
    """

    def __init__(self, registry: Registry, now: float) -> None:
        """`now` is monotonic, in seconds."""
        registry.discard_idle(now)
        self._left = deque(registry.streams.values())
        self.told = Told(counted=[registry.forgotten])

    def go_on(self, now: float, wall: float, most: int | None = None) -> bool:
        """The next streams, so many at most (None: all). Whether that was the last. `wall`: seconds since the epoch."""
        for _ in range(len(self._left) if most is None else min(most, len(self._left))):
            self._add(self._left.popleft(), now, wall)
        return not self._left

    def _add(self, stream: LiveStream, now: float, wall: float) -> None:
        told, publication = self.told, stream.publication
        told.samples += stream.tick(now, wall)
        if players := stream.subscribers:
            told.players += [_player(stream.path, player) for player in players]
        if publication is not None:
            if breach := publication.breach(now):
                told.breaches.append((publication.publisher.session_id, breach))
            told.unrecorded += publication.is_unrecorded
        shown = snapshot(stream)
        told.counted.append(shown["counters"])
        told.streams.append(shown)


def _player(path: str, player: Subscriber) -> PlayerSample:
    return PlayerSample(
        session_id=player.session_id,
        path=path,
        out_bytes=player.sent_bytes,
        dropped_frames=player.dropped_frames,
        queued_ms=player.pending_ms,
        dropped_video=player.dropped_video,
        dropped_audio=player.dropped_audio,
        sheds=player.sheds,
    )
