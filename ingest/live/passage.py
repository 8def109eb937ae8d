"""A live stream's messages for a player whose time is not the stream's, or whose item ends before the stream does.

Such a player came from something else by play2 (RTMP 1.0, section 7.2.2.2), so that its time goes on from there, or
gave a duration (section 7.2.2.1). It alone pays for it: its messages are looked at one by one, and have own headers
where their time is another. The others are sent the shared bytes.
"""

from collections.abc import Callable, Iterable
from typing import Final

from ingest.live.shared import SharedMessage
from ingest.rtmp.timestamps import WRAP, difference

MASK: Final = WRAP - 1
EXTENDED: Final = 0xFFFFFF
"""From here on a timestamp doesn't fit into a chunk's header (section 5.3.1.3)."""


class Passage:
    """Times: milliseconds, 32 bits."""

    def __init__(self, *, reached: int | None = None, length_ms: float | None = None) -> None:
        """`reached`: the player's time at which the first frame is put, so that nothing is before it; None: its time is
        the stream's. `length_ms`: how long the item is, from its first frame on; 0: one frame, None: as the stream."""
        self.length_ms = length_ms
        self.is_over = False
        """Nothing more passes."""
        self._reached = reached
        self._shift_ms: int | None = None
        """From the stream's time to the player's; None before the first frame."""
        self._first: int | None = None

    def at(self, timestamp: int) -> int:
        """The player's time."""
        reached = self._reached
        if reached is None:
            return timestamp
        at = reached if self._shift_ms is None else (timestamp + self._shift_ms) & MASK
        return at if difference(at, reached) >= 0 else reached

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
                if self._reached is not None and self._shift_ms is None and message.is_frame:
                    self._shift_ms = self._reached - message.timestamp
        return taken

    def _belongs(self, message: SharedMessage, is_beginning: Callable[[SharedMessage], bool]) -> bool:
        if not message.is_frame:
            return message.is_header or self.length_ms != 0
        if self.length_ms == 0:
            self.is_over = is_beginning(message)
            return self.is_over
        if self._first is None:
            self._first = message.timestamp
        self.is_over = difference(message.timestamp, self._first) >= (self.length_ms or 0)
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
