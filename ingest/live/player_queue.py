"""One player's queue: bounded in messages, bytes and seconds, and what is dropped when a bound is passed.

In this order, until the queue is within its bounds again:
1. frames that no other frame refers to, once it is over `disposable_at` of its bounds, until it was empty once
2. video before the newest queued keyframe
3. all video, and what follows up to the next keyframe
4. the oldest audio and data, down to half of the bounds
5. headers that a newer one of their kind follows
So what a player gets stays in order, video always continues at a keyframe, and the newest headers are never lost.

A player that has passed the bounds once is slow: it would fill them again and again, with a hole of as many seconds
each time. So from then on it has but `slow_share` of them, and what passes that is cut where nothing else needs it: of
each group of pictures it gets the beginning, as much as it can take, and then the next group's. If even a
keyframe still waits when the next one comes, that counts as passing the bounds. `python -m bench slowplayer` compares
it with other ways.

The path of every message to every player goes through `offer`, so it costs an append and a few additions, and the
player is woken only when its queue was empty. All that is rare, such as shedding, is kept out of it."""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from math import inf
from typing import Any, Final

from ingest.live.message import SharedMessage

RECOVERED_S: Final = 60.0
"""A slow player for which nothing had to be cut for so long is one no more."""


@dataclass(frozen=True, slots=True)
class QueueLimits:
    messages: int = 1024
    size_bytes: int = 8 * 1024 * 1024
    seconds: float = 10.0
    """Age of the oldest queued video frame, by arrival: timestamps can't defeat it. Audio is bounded by the others."""
    disposable_at: float = 0.5
    """The part of the bounds over which disposable frames are dropped, until the queue was empty once; 1: only then."""
    slow_share: float = 0.1
    """The part of the bounds that a player has which passed them, until it kept within it for RECOVERED_S; 1: all."""
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


NOTHING: deque[SharedMessage] = deque(maxlen=0)
"""Of all queues that are empty, which are nearly all, as a deque has some room at once. Nothing can be put into it."""


class Gate(IntEnum):
    """Whether video may pass."""

    OPEN = 0
    JOINING = 1  # Waits for the first keyframe; what is withheld doesn't count as dropped.
    WAIT_KEYFRAME = 2  # Waits for the next keyframe, after a drop or as it is behind.
    DROP_DISPOSABLE = 3  # All may but disposable frames.


@dataclass(eq=False, repr=False, slots=True)
class PlayerQueue:
    """What waits for a player. `wake` is called with it when it is no longer empty.

    `wake` must not change the stream's subscribers: it only notes that there is something to write.
    """

    limits: QueueLimits
    _wake: Callable[[Any], object]
    joined: float = 0.0
    """Since when the player is there: no video that waits is older to it."""
    pending_bytes: int = 0
    """Payload bytes in the queue."""
    dropped_video: int = 0
    dropped_audio: int = 0
    """Frames that the player did not get as it was too slow for them."""
    sheds: int = 0
    """Times that a bound was passed. Disposable frames and ends of groups of pictures are cut before that."""
    last_drop: float | None = None
    _queue: deque[SharedMessage] = field(default_factory=lambda: NOTHING)
    _gate: Gate = Gate.JOINING
    _oldest_video: float = inf
    _burst: tuple[int, int] = (0, 0)
    """Messages and bytes by which the bounds are raised until the queue was empty once."""
    _drops_disposable: bool = False
    """It has passed the part of its bounds over which disposable frames go, and not been empty since."""
    _is_slow: bool = False
    """The player is slow: it has but a part of the bounds,"""
    _cut_at: float = 0.0
    """this is when something was last cut for it,"""
    _taken_at_cut: int = 0
    """and how many pictures it had taken when a keyframe came last that it was not ready for."""
    _is_raised: bool = False
    """The bounds are not those of a queue that was empty."""
    _video: int = 0
    """Frames put into the queue and not dropped from it since."""
    _audio: int = 0
    _keyframes: int = 0
    _over_since: float = 0.0
    _messages_limit: int = field(init=False)
    _bytes_limit: int = field(init=False)
    _seconds_limit: float = field(init=False)

    def __post_init__(self) -> None:
        self._set_limits()

    @property
    def first_waiting(self) -> SharedMessage | None:
        """Of those that are of a time."""
        return next((message for message in self._queue if not message.is_metadata), None)

    @property
    def pending_messages(self) -> int:
        return len(self._queue)

    @property
    def pending_ms(self) -> int:
        """How long it took for what is queued to arrive."""
        queue = self._queue
        return round((queue[-1].arrived - queue[0].arrived) * 1000) if queue else 0

    @property
    def dropped_frames(self) -> int:
        return self.dropped_video + self.dropped_audio

    # --- Its bounds ---

    def _settle(self) -> None:
        """The queue was empty once: its bounds are those that were set."""
        self._is_raised = self._drops_disposable = False
        self._burst = (0, 0)
        self._set_limits()
        if self._gate is Gate.DROP_DISPOSABLE:
            self._gate = Gate.OPEN

    def _set_limits(self) -> None:
        limits, (messages, size) = self.limits, self._burst
        part = 1.0 if self._drops_disposable else limits.disposable_at
        if self._is_slow:
            part *= limits.slow_share
        self._messages_limit = int(limits.messages * part) + messages
        self._bytes_limit = int(limits.size_bytes * part) + size
        self._seconds_limit = limits.seconds * part

    def _set_slow(self, slow: bool) -> None:
        self._is_slow = slow
        self._set_limits()

    def _is_over(self) -> bool:
        queue = self._queue
        return (
            self.pending_bytes > self._bytes_limit
            or len(queue) > self._messages_limit
            or queue[-1].arrived - self._oldest_video > self._seconds_limit
        )

    def _drop(self) -> None:
        newest = self._queue[-1]
        now = newest.arrived
        if self._is_slow and now - self._cut_at > RECOVERED_S:
            self._set_slow(False)
            if not self._is_over():
                return
        if not self._drops_disposable:
            self._drops_disposable = self._is_raised = True
            self._set_limits()
            if self._gate is Gate.OPEN:
                self._gate = Gate.DROP_DISPOSABLE
            self._drop_but(without_disposable(self._queue))
            if not self._queue or not self._is_over():
                return
        self._cut_at = now
        if self._is_slow:
            self._set_slow(False)
            if not self._is_over():
                self._set_slow(True)
                self._cut(newest)
                return
        self._note_drop(now)
        self._drop_but(from_newest_keyframe(self._queue))
        if self._queue and self._is_over():
            if self._gate is not Gate.JOINING:
                self._gate = Gate.WAIT_KEYFRAME
            self._drop_but(without_video(self._queue))
        if self._queue and self._is_over():
            most = self._messages_limit // 2, self._bytes_limit // 2
            self._drop_but(without_oldest(self._queue, *most))
        if self._queue and self._is_over():
            self._drop_but(newest_headers(self._queue))
        self._set_slow(self.limits.slow_share < 1)

    def _cut(self, newest: SharedMessage) -> None:
        """For a slow player: the rest of the group of pictures under way or, with the next one, what waits of it."""
        if newest.is_keyframe:
            taken = self._video - sum(message.is_video and message.is_frame for message in self._queue)
            if taken == self._taken_at_cut:
                self._note_drop(newest.arrived)
            else:
                self._over_since = newest.arrived
            self._taken_at_cut = taken
            self._drop_but(from_newest_keyframe(self._queue))
        elif self._gate is not Gate.JOINING:
            self._gate = Gate.WAIT_KEYFRAME

    def _note_drop(self, now: float) -> None:
        if self.last_drop is None or now - self.last_drop > self.limits.patience_s:
            self._over_since = now
        self.last_drop = now
        self.sheds += 1

    def _withholds(self, message: SharedMessage) -> bool:
        """Whether the gate, which is not open, keeps the video message from the player."""
        if message.is_keyframe:
            self._gate = Gate.DROP_DISPOSABLE if self._drops_disposable else Gate.OPEN
            return False
        if self._gate is Gate.DROP_DISPOSABLE and not message.is_disposable:
            return False
        if self._gate is not Gate.JOINING:
            self.dropped_video += message.is_frame
        return True

    def _drop_but(self, kept: Iterable[SharedMessage]) -> None:
        """The others are dropped as the player is too slow for them."""
        video, audio = self._video, self._audio
        self._keep(kept)
        self.dropped_video += video - self._video
        self.dropped_audio += audio - self._audio

    def _keep(self, kept: Iterable[SharedMessage]) -> None:
        former, self._queue = self._queue, deque(kept) or NOTHING
        for message in former:
            self._count(message, -1)
        for message in self._queue:
            self._count(message, 1)
        self.pending_bytes = sum(message.size for message in self._queue)
        self._find_oldest_video()

    def _count(self, message: SharedMessage, step: int) -> None:
        if message.is_frame:
            if message.is_video:
                self._video += step
                self._keyframes += step * message.is_keyframe
            else:
                self._audio += step

    def _find_oldest_video(self) -> None:
        """What was there before the player counts from when it joined."""
        first = next((message.arrived for message in self._queue if message.is_video and not message.is_header), inf)
        self._oldest_video = max(first, self.joined)


def offer(message: SharedMessage, subscribers: Iterable[PlayerQueue]) -> None:
    """Put the message into each queue, or drop it there. The hot loop: see the module's docstring."""
    if message.is_video and not message.is_header:
        _offer_video(message, subscribers)
        return
    size = message.size
    frames = int(message.is_frame)
    for subscriber in subscribers:
        queue = subscriber._queue
        subscriber._audio += frames
        if queue:
            queue.append(message)
            subscriber.pending_bytes += size
            if subscriber.pending_bytes > subscriber._bytes_limit or len(queue) > subscriber._messages_limit:
                subscriber._drop()
        else:
            subscriber._queue = deque((message,))
            subscriber.pending_bytes = size
            subscriber._wake(subscriber)


def _offer_video(message: SharedMessage, subscribers: Iterable[PlayerQueue]) -> None:
    size = message.size
    arrived = message.arrived
    frames = int(message.is_frame)
    is_keyframe = message.is_keyframe
    for subscriber in subscribers:
        if subscriber._gate and subscriber._withholds(message):
            continue
        if is_keyframe:
            subscriber._keyframes += 1
        subscriber._video += frames
        queue = subscriber._queue
        if queue:
            queue.append(message)
            subscriber.pending_bytes += size
            if subscriber._oldest_video > arrived:
                subscriber._oldest_video = arrived
            if (
                subscriber.pending_bytes > subscriber._bytes_limit
                or len(queue) > subscriber._messages_limit
                or arrived - subscriber._oldest_video > subscriber._seconds_limit
            ):
                subscriber._drop()
        else:
            subscriber._queue = deque((message,))
            subscriber.pending_bytes = size
            subscriber._oldest_video = arrived
            subscriber._wake(subscriber)
