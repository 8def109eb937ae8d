"""The bounds of a player's queue, and which of the queued messages are kept when one is passed.

In this order, until the queue is within its bounds again:
1. frames that no other frame refers to, as soon as it is over `spares` of its bounds, and until it was empty once
2. video before the newest queued keyframe
3. all video, and what follows up to the next keyframe
4. the oldest audio and data, down to half of the bounds
5. headers that a newer one of their kind follows
So what a player gets stays in order, video always continues at a keyframe, and the newest headers are never lost.

A player that has passed the bounds once is slow: it would fill them again and again, with a hole of as many seconds
each time. So from then on it has but the part `thinned` of them, and what passes that is cut where nothing else needs
it: of each group of pictures it gets the beginning, as much as it can take, and then the next group's. If even a
keyframe still waits when the next one comes, that counts as passing the bounds. `python -m bench slowplayer` compares
it with other ways.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from ingest.live.shared import SharedMessage

WELL_S: Final = 60.0
"""A slow player for which nothing had to be cut for so long is one no more."""


@dataclass(frozen=True, slots=True)
class QueueLimits:
    messages: int = 1024
    size_bytes: int = 8 * 1024 * 1024
    seconds: float = 10.0
    """Age of the oldest queued video frame, by arrival: timestamps can't defeat it. Audio is bounded by the others."""
    spares: float = 0.5
    """The part of the bounds over which disposable frames are dropped, until the queue was empty once; 1: only then."""
    thinned: float = 0.1
    """The part of the bounds that a player has which passed them, until it has kept within it for WELL_S; 1: all."""
    patience_s: float = 10.0
    """A player that goes over its bounds again each time within so long, for so long, is too slow."""


def without_disposable(queue: Collection[SharedMessage]) -> Iterator[SharedMessage]:
    return (message for message in queue if not message.is_disposable)


def from_newest_keyframe(queue: Collection[SharedMessage]) -> Iterator[SharedMessage]:
    newest = max((at for at, message in enumerate(queue) if message.is_keyframe), default=0)
    return (message for at, message in enumerate(queue) if at >= newest or not message.is_video or message.is_header)


def without_video(queue: Collection[SharedMessage]) -> Iterator[SharedMessage]:
    return (message for message in queue if not message.is_video or message.is_header)


def without_oldest(queue: Collection[SharedMessage], most_messages: int, most_bytes: int) -> Iterator[SharedMessage]:
    """The newest of them, about so many and so much."""
    size, count = sum(message.size for message in queue), len(queue)
    for message in queue:
        if (size <= most_bytes and count <= most_messages) or message.is_header:
            yield message
        else:
            size -= message.size
            count -= 1


def newest_headers(queue: Collection[SharedMessage]) -> Iterator[SharedMessage]:
    newest = {(message.kind, message.slot): message for message in queue if message.is_header}
    return (message for message in queue if not message.is_header or newest[message.kind, message.slot] is message)
