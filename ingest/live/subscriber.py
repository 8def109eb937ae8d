"""One player's queue: bounded in messages, bytes and seconds, and what is dropped when a bound is passed.

The path of every message to every player goes through `offer`, so it costs an append and a few additions, and the
player is woken only when its queue was empty. All that is rare (shedding, joining) is kept out of it.

What goes first, until the queue is within its bounds again:
1. video before the newest queued keyframe;
2. all video, and what follows up to the next keyframe;
3. the oldest audio and data, down to half of the bounds;
4. headers that a newer one of their kind follows.
So what a player gets stays in order, video always continues at a keyframe, and the newest headers are never lost.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from math import inf
from typing import Final

from ingest.contracts import Totals
from ingest.live.shared import SharedMessage

SLOW_MS: Final = 2000
"""A player whose queue spans more is slow."""


@dataclass(frozen=True, slots=True)
class QueueLimits:
    messages: int = 1024
    size_bytes: int = 8 * 1024 * 1024
    seconds: float = 10.0
    """Age of the oldest queued video frame, by arrival: timestamps can't defeat it. Audio is bounded by the others."""


class Gate(IntEnum):
    """Whether video may pass."""

    OPEN = 0
    JOINING = 1  # Waits for the first keyframe; what is withheld doesn't count as dropped.
    SHED = 2  # Waits for the next keyframe after a drop.


class Subscriber:
    """A player of a live stream. `take` empties it; `wake` is called when it is no longer empty.

    `wake` must not change the stream's subscribers: it only notes that there is something to write.
    """

    __slots__ = (
        "_audio",
        "_bytes_limit",
        "_gate",
        "_is_raised",
        "_keyframes",
        "_messages_limit",
        "_oldest_video",
        "_queue",
        "_seconds_limit",
        "_slow_since",
        "_video",
        "_wake",
        "dropped_frames",
        "joined",
        "limits",
        "pending_bytes",
        "sent_bytes",
        "session_id",
        "stream_id",
    )

    def __init__(
        self,
        stream_id: int,
        limits: QueueLimits,
        wake: Callable[["Subscriber"], object],
        *,
        session_id: str = "",
    ) -> None:
        self.stream_id = stream_id
        """The message stream that the player plays on."""
        self.session_id = session_id
        self.limits = limits
        self.joined = 0.0
        self.pending_bytes = 0
        """Payload bytes in the queue."""
        self.sent_bytes = 0
        """Bytes taken, chunk headers included."""
        self.dropped_frames = 0
        self._wake = wake
        self._queue: deque[SharedMessage] = deque()
        self._gate = Gate.JOINING
        self._oldest_video = inf
        self._messages_limit = limits.messages
        self._bytes_limit = limits.size_bytes
        self._seconds_limit = limits.seconds
        self._is_raised = False
        # Frames put into the queue and not dropped from it since.
        self._video = 0
        self._audio = 0
        self._keyframes = 0
        self._slow_since: float | None = None

    # --- The stream's side ---

    def begin(self, messages: Iterable[SharedMessage], now: float, *, at_keyframe: bool) -> None:
        """Start with the cached messages. `at_keyframe`: they hold a keyframe, so that video may go on after them.

        They may be more than the bounds allow; the bounds are raised by as much until the queue was empty once.
        """
        self.joined = now
        self._gate = Gate.OPEN if at_keyframe else Gate.JOINING
        was_empty = not self._queue
        for message in messages:
            self._queue.append(message)
            self.pending_bytes += message.size
            self._count(message, 1)
        self._is_raised = True
        self._messages_limit = self.limits.messages + len(self._queue)
        self._bytes_limit = self.limits.size_bytes + self.pending_bytes
        self._find_oldest_video()
        if was_empty and self._queue:
            self._wake(self)

    def wait_for_keyframe(self) -> None:
        """Another publisher begins: what it sends can't be decoded before its first keyframe."""
        self._gate = Gate.JOINING

    @property
    def has_media(self) -> bool:
        """Whether the player was given any audio or video, and so has a timeline to continue."""
        return self._video > 0 or self._audio > 0

    # --- The shell's side ---

    def take(self, max_bytes: int | None = None) -> list[bytes]:
        """What is queued, to be written in one gathered write; with `max_bytes`, about as much of it (one at least).

        What stays in the queue can still be dropped for newer media; what was taken can't.
        """
        queue = self._queue
        if not queue:
            return []
        stream_id = self.stream_id
        if len(queue) == 1:
            message = queue.popleft()
            taken = [message.wire if message.wire_id == stream_id else message.encoded(stream_id)]
            self.sent_bytes += len(taken[0])
        elif max_bytes is None or self.pending_bytes <= max_bytes:
            taken = [message.wire if message.wire_id == stream_id else message.encoded(stream_id) for message in queue]
            queue.clear()
            self.sent_bytes += sum(map(len, taken))
        else:
            return self._take_part(max_bytes)
        self.pending_bytes = 0
        self._oldest_video = inf
        if self._is_raised:
            self._is_raised = False
            self._messages_limit = self.limits.messages
            self._bytes_limit = self.limits.size_bytes
        return taken

    def _take_part(self, max_bytes: int) -> list[bytes]:
        queue = self._queue
        taken: list[bytes] = []
        size = 0
        while queue and (not taken or size + queue[0].size <= max_bytes):
            message = queue.popleft()
            size += message.size
            taken.append(message.encoded(self.stream_id))
        self.pending_bytes -= size
        self._find_oldest_video()
        self.sent_bytes += sum(map(len, taken))
        return taken

    @property
    def pending_messages(self) -> int:
        return len(self._queue)

    @property
    def pending_ms(self) -> int:
        """How long it took for what is queued to arrive."""
        queue = self._queue
        return round((queue[-1].arrived - queue[0].arrived) * 1000) if queue else 0

    @property
    def sent_video(self) -> int:
        return self._video - sum(1 for message in self._queue if message.is_video and message.is_frame)

    @property
    def sent_audio(self) -> int:
        return self._audio - sum(1 for message in self._queue if message.is_frame and not message.is_video)

    @property
    def sent_keyframes(self) -> int:
        return self._keyframes - sum(1 for message in self._queue if message.is_keyframe)

    def slow_since(self, now: float) -> float | None:
        """Since when the queue spans more than 2 s, as far as it was asked; to be asked about once a second."""
        if self.pending_ms <= SLOW_MS:
            self._slow_since = None
        elif self._slow_since is None:
            self._slow_since = now
        return self._slow_since

    def totals(self, now: float) -> Totals:
        """Of the player's session so far; frames are those that were taken."""
        return Totals(
            bytes_in=0,
            bytes_out=self.sent_bytes,
            video_frames=self.sent_video,
            audio_frames=self.sent_audio,
            keyframes=self.sent_keyframes,
            dropped_frames=self.dropped_frames,
            duration_ms=round((now - self.joined) * 1000),
        )

    # --- Dropping ---

    def _is_over(self) -> bool:
        queue = self._queue
        return (
            self.pending_bytes > self._bytes_limit
            or len(queue) > self._messages_limit
            or queue[-1].arrived - self._oldest_video > self._seconds_limit
        )

    def _shed(self) -> None:
        """A bound was passed: drop what the module's table says, in its order, until the queue is within them."""
        for kept in (self._from_newest_keyframe, self._without_video, self._without_old_audio, self._newest_headers):
            if not self._queue or not self._is_over():
                return
            self._replace(kept())

    def _from_newest_keyframe(self) -> Iterator[SharedMessage]:
        queue = self._queue
        newest = max((at for at, message in enumerate(queue) if message.is_keyframe), default=0)
        for at, message in enumerate(queue):
            if at >= newest or not message.is_video or message.is_header:
                yield message

    def _without_video(self) -> Iterator[SharedMessage]:
        self._gate = Gate.SHED
        return (message for message in self._queue if not message.is_video or message.is_header)

    def _without_old_audio(self) -> Iterator[SharedMessage]:
        size, count = self.pending_bytes, len(self._queue)
        for message in self._queue:
            fits = size <= self._bytes_limit // 2 and count <= self._messages_limit // 2
            if fits or message.is_header:
                yield message
            else:
                size -= message.size
                count -= 1

    def _newest_headers(self) -> Iterator[SharedMessage]:
        newest = {(message.kind, message.slot): message for message in self._queue if message.is_header}
        for message in self._queue:
            if not message.is_header or newest[message.kind, message.slot] is message:
                yield message

    def _replace(self, kept: Iterable[SharedMessage]) -> None:
        for message in self._queue:
            self._count(message, -1)
        self.dropped_frames += sum(message.is_frame for message in self._queue)
        self._queue = deque(kept)
        self.dropped_frames -= sum(message.is_frame for message in self._queue)
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


def offer(message: SharedMessage, subscribers: Iterable[Subscriber]) -> None:
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
                subscriber._shed()
        else:
            queue.append(message)
            subscriber.pending_bytes = size
            subscriber._wake(subscriber)


def _offer_video(message: SharedMessage, subscribers: Iterable[Subscriber]) -> None:
    size = message.size
    arrived = message.arrived
    frames = int(message.is_frame)
    is_keyframe = message.is_keyframe
    for subscriber in subscribers:
        if subscriber._gate:
            if not is_keyframe:
                if subscriber._gate is Gate.SHED:
                    subscriber.dropped_frames += frames
                continue
            subscriber._gate = Gate.OPEN
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
                subscriber._shed()
        else:
            queue.append(message)
            subscriber.pending_bytes = size
            subscriber._oldest_video = arrived
            subscriber._wake(subscriber)
