"""Once a second: what a node tells of all its streams."""

from typing import NamedTuple

from ingest.contracts import PlayerSample, Sample, StreamSnapshot
from ingest.live.registry import Registry
from ingest.live.snapshot import snapshot


class Tick(NamedTuple):
    samples: list[Sample]
    streams: list[StreamSnapshot]
    players: list[PlayerSample]
    breaches: list[tuple[str, str]]
    """Publishers that stayed over their key's limit: the session's id, and why it must end."""


def tick(registry: Registry, now: float, wall: float) -> Tick:
    """`now` is monotonic, `wall` since the epoch, both in seconds. Streams long idle are forgotten."""
    registry.discard_idle(now)
    streams = registry.streams.values()
    samples = [sample for stream in streams for sample in stream.tick(now, wall)]
    players = [
        PlayerSample(
            session_id=subscriber.session_id,
            path=stream.path,
            out_bytes=subscriber.sent_bytes,
            dropped_frames=subscriber.dropped_frames,
            queued_ms=subscriber.pending_ms,
        )
        for stream in streams
        for subscriber in stream.subscribers
    ]
    breaches = [
        (stream.publisher.session_id, breach)
        for stream in streams
        if stream.publisher is not None and (breach := stream.breach(now))
    ]
    return Tick(samples, [snapshot(stream) for stream in streams], players, breaches)
