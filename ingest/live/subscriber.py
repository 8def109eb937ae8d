"""A player of a live stream, or who takes what one would: what it begins with, takes, and is not sent.

What came since the last flush is a `Batch`, whose forms are made once for all. A player whose time is not the stream's
(a playlist, play2), or whose item ends before the stream does, has its messages through a `TimelineShift`.

Either it is at the live edge, and given each batch as all there are; or what it has not been given waits in its queue,
which is bounded."""

from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf
from typing import Final, Literal

from ingest.contracts import Totals
from ingest.live.message import (
    ALL_EXTENSIONS,
    DATA,
    FRAME,
    HEADER,
    KEYFRAME,
    KIND,
    VIDEO,
    Kind,
    SharedMessage,
    Span,
)
from ingest.live.player_queue import NOTHING, Gate, PlayerQueue, QueueLimits, offer
from ingest.live.stream_log import StreamLog


class Batch:
    """Its forms can be had only while it is delivered: its bytes are the log's."""

    __slots__ = (
        "_forms",
        "_log",
        "_messages",
        "_span",
        "audio_frames",
        "keyframes",
        "payload_bytes",
        "video_frames",
        "wire_bytes",
    )

    def __init__(self, log: StreamLog, span: Span) -> None:
        self._log = log
        self._span = span
        self._messages: list[SharedMessage] | None = None
        self._forms: dict[Form, bytes] = {}
        self.wire_bytes = span.end - span.start
        """In chunks; `payload_bytes`: of the messages themselves."""
        self.payload_bytes = self.video_frames = self.audio_frames = self.keyframes = 0
        for flags, _, _, _, size in log.records(span.first, span.stop):
            self.payload_bytes += size
            if flags & FRAME:
                if flags & KIND == VIDEO:
                    self.video_frames += 1
                    self.keyframes += flags & KEYFRAME == KEYFRAME
                else:
                    self.audio_frames += 1

    @property
    def messages(self) -> list[SharedMessage]:
        """Each by itself, for who is not sent all of them, or not now."""
        found = self._messages
        if found is None:
            found = self._messages = list(self._log.made(self._span.first, self._span.stop))
        return found

    @property
    def has_kept_data(self) -> bool:
        """Whether there are data among them that later players are to have."""
        records = self._log.records(self._span.first, self._span.stop)
        return any(flags & (KIND | HEADER) == DATA | HEADER for flags, *_ in records)

    def wire(self, stream_id: int) -> bytes:
        return self._log.wire(self._span, stream_id)

    def form(self, make: "Form") -> bytes:
        found = self._forms.get(make)
        if found is None:
            found = self._forms[make] = make(self)
        return found


Form = Callable[[Batch], bytes]
"""How some readers are sent a batch. Those of the same form are sent the same bytes."""


@lru_cache(maxsize=64)
def in_chunks(stream_id: int) -> Form:
    return lambda batch: batch.wire(stream_id)


SLOW_MS: Final = 1500
"""A player that is further behind, and not catching up, is slow,"""
SLOW_FOR_S: Final = 30.0
"""and one for which frames were dropped, for so long."""
LOSING_MS: Final = 5000
"""One that is further behind than this sees a picture that stands, before any frame is dropped for it. Not for a second
only: a keyframe on its way is seconds long by the bitrate of a still picture."""
CATCHES_UP_MS: Final = 100
"""By so much less than a second ago it is behind if it catches up;"""
CATCHES_UP_S: Final = 5.0
"""it has to for so long: what it takes comes in heaps."""
JOINS_S: Final = 1.0
"""Who has just joined is behind by the pictures that it begins with."""


PassesOnTo = Literal["", "node", "server", "viewers"]
"""Another node, whose own players count in its place; another server; or this node's viewers by HLS, who count in its
place, too: what it takes has been sent to nobody yet."""

Write = Callable[[bytes], bool]
"""Gives the peer a batch in its form. False: it can't take it now. It must change no stream's subscribers."""


@dataclass(slots=True)
class Given:
    """What subscribers were given that are at the live edge, since the stream was made."""

    video_frames: int = 0
    audio_frames: int = 0
    keyframes: int = 0
    payload_bytes: int = 0
    wire_bytes: int = 0

    def add(self, batch: Batch) -> None:
        self.video_frames += batch.video_frames
        self.audio_frames += batch.audio_frames
        self.keyframes += batch.keyframes
        self.payload_bytes += batch.payload_bytes
        self.wire_bytes += batch.wire_bytes


NOTHING_GIVEN: Final = Given()


class Subscriber(PlayerQueue):
    __slots__ = (
        "_counts_payloads",
        "_dropped_at",
        "_fell_at",
        "_given",
        "_given_before",
        "_known_dropped",
        "_sent_bytes",
        "behind_ms",
        "departures",
        "form",
        "held",
        "is_behind",
        "is_counted",
        "is_losing",
        "muted",
        "on_unpublished",
        "passes_on_to",
        "session_id",
        "stream_id",
        "takes",
        "write",
    )

    def __init__(
        self,
        stream_id: int,
        limits: QueueLimits,
        wake: Callable[["Subscriber"], object],
        *,
        write: Write | None = None,
        form: Form | None = None,
        held: Callable[[bool], int] | None = None,
        session_id: str = "",
        is_counted: bool = True,
        passes_on_to: PassesOnTo = "",
        counts_payloads: bool = False,
        takes: int = ALL_EXTENSIONS,
        on_unpublished: Callable[[], object] | None = None,
    ) -> None:
        """`write`: None: it takes messages one by one, always. `form`: None: in chunks. `counts_payloads`: what it is
        sent in its form is counted by those. `held`: how many bytes were written to the peer that it has not taken,
        closely or not; asked once a second. `on_unpublished`: called when the publisher has left, and all of it was
        given; like `wake` it must not change the stream's subscribers."""
        super().__init__(limits, wake)
        self.stream_id = stream_id
        self.session_id = session_id
        self.is_counted = is_counted
        """Among the stream's players: an operator's look is not, though what it is sent is."""
        self.passes_on_to = passes_on_to
        """Who takes it to publish it again is no player."""
        self.takes = takes
        """Which messages it understands beside plain ones: flags of CapsEx."""
        self._sent_bytes = 0
        self.write = write
        self.form = form or in_chunks(stream_id)
        self.held = held
        self.on_unpublished = on_unpublished
        self._counts_payloads = counts_payloads
        self._given = self._given_before = NOTHING_GIVEN
        """While it is at the live edge: what those are given, and had been when it came there."""
        self.muted: dict[Kind, float] = {}
        """The kinds that it is not sent, and since when. The stream's: see `LiveStream.mute`."""
        self.departures = 0
        """The number of publishers that had left the stream when this subscriber joined."""
        self._known_dropped = 0
        """Frames, as of the latest time that it was asked whether it is slow,"""
        self._dropped_at = -inf
        """and when it was first told of them."""
        self._fell_at = -inf
        """When it was last no nearer than a second before,"""
        self.behind_ms = 0
        """how much waits for it then, in its queue and in its connection,"""
        self.is_behind = False
        """whether that is much, and doesn't grow less,"""
        self.is_losing = False
        """and whether it loses picture by that."""

    # --- The stream's side ---

    def begin(self, messages: Iterable[SharedMessage], now: float, *, at_keyframe: bool) -> None:
        """Start with the cached messages. `at_keyframe`: they hold a keyframe, so that video may go on after them; or
        there is none to wait for.

        They may be more than the bounds allow; the bounds are raised by as much until the queue was empty once.
        """
        self.joined = now
        self._gate = Gate.OPEN if at_keyframe else Gate.JOINING
        was_empty = not self._queue
        given = list(messages)
        for message in given:
            self.pending_bytes += message.size
            self._count(message, 1)
        if given:
            self._queue = deque((*self._queue, *given))
        self._is_raised = True
        self._burst = (len(self._queue), self.pending_bytes)
        self._set_limits()
        self._find_oldest_video()
        if was_empty and self._queue:
            self._wake(self)

    def wait_for_keyframe(self) -> None:
        """Another publisher begins, or video is wanted again: it can't be decoded before its next keyframe."""
        self._gate = Gate.JOINING

    def begin_anywhere(self) -> None:
        """No keyframe is to be waited for: a picture that is whole after a while is better than none."""
        if self._gate in (Gate.JOINING, Gate.WAIT_KEYFRAME):
            self._gate = Gate.DROP_DISPOSABLE if self._drops_disposable else Gate.OPEN

    def catch_up(self, headers: Iterable[SharedMessage]) -> None:
        """What the player was not sent while it was muted, and needs for what follows."""
        for header in headers:
            offer(header, (self,))

    def forget(self, kinds: Collection[Kind]) -> None:
        """What is queued of these kinds is not wanted any more, but for headers."""
        kept = [message for message in self._queue if message.is_header or message.kind not in kinds]
        if len(kept) < len(self._queue):
            self._keep(kept)

    def withdraw(self) -> list[SharedMessage]:
        """All that is queued, as if the player had never been given it."""
        queued = list(self._queue)
        self._keep(())
        self._settle()
        return queued

    @property
    def has_media(self) -> bool:
        """Whether the player was given any audio or video, and so has a timeline to continue."""
        given, before = self._given, self._given_before
        frames = given.video_frames + given.audio_frames - before.video_frames - before.audio_frames
        return self._video > 0 or self._audio > 0 or frames > 0

    # --- At the live edge ---

    @property
    def is_at_live_edge(self) -> bool:
        return self._given is not NOTHING_GIVEN

    def can_join_live_edge(self, *, without_video: bool) -> bool:
        """Whether it is to be given all that comes, and has all that came. `without_video`: of a stream that has none,
        so that there is no keyframe to wait for."""
        if self.write is None or self._queue or self.muted:
            return False
        return self._gate is Gate.OPEN or (without_video and self._gate is Gate.JOINING)

    def join_live_edge(self, given: Given) -> None:
        self._given, self._given_before = given, replace(given)

    def leave_live_edge(self) -> None:
        given, before = self._given, self._given_before
        self._sent_bytes = self.sent_bytes
        self._video += given.video_frames - before.video_frames
        self._audio += given.audio_frames - before.audio_frames
        self._keyframes += given.keyframes - before.keyframes
        self._given = self._given_before = NOTHING_GIVEN

    @property
    def sent_bytes(self) -> int:
        """What was taken and given: in chunks, or of payloads."""
        given, before = self._given, self._given_before
        if self._counts_payloads:
            return self._sent_bytes + given.payload_bytes - before.payload_bytes
        return self._sent_bytes + given.wire_bytes - before.wire_bytes

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
            message = queue[0]
            taken = [message.wire if message.wire_id == stream_id else message.encoded(stream_id)]
            self._sent_bytes += len(taken[0])
        elif max_bytes is None or self.pending_bytes <= max_bytes:
            taken = [message.wire if message.wire_id == stream_id else message.encoded(stream_id) for message in queue]
            self._sent_bytes += sum(map(len, taken))
        else:
            before = self._sent_bytes
            taken = [message.encoded(stream_id) for message in self.take_messages(max_bytes)]
            self._sent_bytes = before + sum(map(len, taken))
            return taken
        self._queue = NOTHING
        self.pending_bytes = 0
        self._oldest_video = inf
        if self._is_raised:
            self._settle()
        return taken

    def take_messages(self, max_bytes: int) -> list[SharedMessage]:
        """As `take`, for who writes them in another form: messages of about so many bytes of payload, one at least.

        `sent_bytes` counts their payloads, unless `count_sent` says more.
        """
        queue = self._queue
        taken: list[SharedMessage] = []
        size = 0
        while queue and (not taken or size + queue[0].size <= max_bytes):
            message = queue.popleft()
            size += message.size
            taken.append(message)
        self._sent_bytes += size
        self.pending_bytes -= size
        self._find_oldest_video()
        if not queue:
            self._queue = NOTHING
            self._settle()
        return taken

    def count_sent(self, size: int) -> None:
        """By so many bytes more (or less) it was sent than was counted."""
        self._sent_bytes += size

    def is_slow(self, now: float, kbps: float | None = None, *, closely: bool = False) -> bool:
        """Whether more than 1.5 s wait for it and it does not catch up, or frames were dropped for it of late. To be
        asked about once a second. `kbps`: of the stream, by which what its connection holds is a time.

        What was dropped has left the queue: who is slow without end has an empty one, now and then.
        """
        if self.dropped_frames != self._known_dropped:
            self._known_dropped, self._dropped_at = self.dropped_frames, now
        held = self.held(closely) if self.held is not None and kbps and not self.muted else 0
        before, self.behind_ms = self.behind_ms, self.pending_ms + (round(held * 8 / kbps) if held and kbps else 0)
        if self.behind_ms > before - CATCHES_UP_MS and now - self.joined > JOINS_S:
            self._fell_at = now
        self.is_behind = self.behind_ms > SLOW_MS and now - self._fell_at < CATCHES_UP_S
        has_lost = now - self._dropped_at < SLOW_FOR_S
        self.is_losing = has_lost or (self.is_behind and min(before, self.behind_ms) > LOSING_MS)
        return has_lost or self.is_behind

    def totals(self, now: float) -> Totals:
        """Of the player's session so far; frames are those that were taken."""
        frames = [message for message in self._queue if message.is_frame]
        waiting = sum(message.is_video for message in frames)
        keyframes = sum(message.is_keyframe for message in frames)
        given, before = self._given, self._given_before
        return Totals(
            bytes_in=0,
            bytes_out=self.sent_bytes,
            video_frames=self._video - waiting + given.video_frames - before.video_frames,
            audio_frames=self._audio - len(frames) + waiting + given.audio_frames - before.audio_frames,
            keyframes=self._keyframes - keyframes + given.keyframes - before.keyframes,
            dropped_frames=self.dropped_frames,
            duration_ms=round((now - self.joined) * 1000),
        )

    def is_too_slow(self, now: float) -> bool:
        patience, last = self.limits.patience_s, self.last_drop
        return last is not None and now - last <= patience <= last - self._over_since
