"""A player whose time is not the stream's, or whose item ends before the stream does.

It came from something else by play2 (RTMP 1.0, section 7.2.2.2), so that its time goes on from there, or gave a
duration (section 7.2.2.1). It alone pays for it: its messages are looked at one by one, and have own headers where
their time is another. The others are sent the shared bytes."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ingest.live.message import SharedMessage
from ingest.live.timeline import MASK
from ingest.rtmp.chunk_writer import EXTENDED
from ingest.rtmp.messages import timestamp_difference


@dataclass(eq=False, repr=False)
class TimelineShift:
    """Times: milliseconds, 32 bits."""

    reached: int | None = None
    """The player's time, before which nothing is, of the first frame; None: its time is the stream's."""
    length_ms: float | None = None
    """How long the item is, from its first frame on; 0: one frame, None: as the stream."""
    is_over: bool = False
    _shift_ms: int | None = None
    """From the stream's time to the player's; None before the first frame."""
    _first: int | None = None

    def at(self, timestamp: int) -> int:
        reached = self.reached
        if reached is None:
            return timestamp
        at = reached if self._shift_ms is None else (timestamp + self._shift_ms) & MASK
        return at if timestamp_difference(at, reached) >= 0 else reached

    def take(
        self, messages: Iterable[SharedMessage], is_beginning: Callable[[SharedMessage], bool]
    ) -> list[SharedMessage]:
        """Those that belong to the item. `is_beginning`: whether it can be one frame: a picture, if there are any."""
        taken = []
        for message in messages:
            if self.is_over:
                break
            if self.length_ms is None or self._belongs(message, is_beginning):
                taken.append(message)
                if self.reached is not None and self._shift_ms is None and message.is_frame:
                    self._shift_ms = self.reached - message.timestamp
        return taken

    def _belongs(self, message: SharedMessage, is_beginning: Callable[[SharedMessage], bool]) -> bool:
        if not message.is_frame:
            return message.is_header or self.length_ms != 0
        if self.length_ms == 0:
            self.is_over = is_beginning(message)
            return self.is_over
        if self._first is None:
            self._first = message.timestamp
        self.is_over = timestamp_difference(message.timestamp, self._first) >= (self.length_ms or 0)
        return not self.is_over

    def encoded(self, message: SharedMessage, stream_id: int) -> bytes:
        """The message in chunks, as `SharedMessage.encoded`, at the player's time."""
        wire = message.encoded(stream_id)
        at = self.at(message.timestamp)
        if at == message.timestamp or message.is_metadata:
            return wire
        if at >= EXTENDED or message.timestamp >= EXTENDED:
            return message.at(at).encoded(stream_id)
        return b"".join((wire[:1], at.to_bytes(3, "big"), wire[4:]))
