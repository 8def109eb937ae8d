"""What waits to be sent to one player of a recording, what of it may go, and how far it has come."""

from collections import deque
from collections.abc import Iterable
from typing import Final

from ingest.server.outlet import Outlet
from ingest.server.recorded.lane import LONG_BYTES, Lane
from ingest.server.recorded.library import Library
from ingest.server.recorded.span import AUDIO, VIDEO
from ingest.server.recorded.tape import Piece

WRITE_BYTES: Final = 64 * 1024
"""Of one write, about."""
TURN_BYTES: Final = 256 * 1024
"""Written before other connections have their turn."""


class Sending:
    """A queue of messages before a lane, which has what one write takes: short messages in the file's order, or a long
    one, cut, with the sound behind it in between."""

    def __init__(self, lane: Lane, outlet: Outlet, library: Library, start_ms: int) -> None:
        self.lane = lane
        self.shift_ms = -start_ms
        """By what the client's time is later than the file's."""
        self.wanted = {AUDIO, VIDEO}
        """Message types."""
        self.had_ms: dict[int, int] = {}
        """By message type: up to where in the file the client was sent it, since the latest beginning."""
        self.position_ms = start_ms
        """The same of all that there was, wanted or not."""
        self.queued_bytes = 0
        self.sent_bytes = 0
        """With chunk headers."""
        self.frames = {AUDIO: 0, VIDEO: 0}
        self.keyframes = 0
        self._outlet = outlet
        self._library = library
        self._queue: deque[Piece] = deque()
        self._is_long = False
        """What waits in the lane is a long message, with sound behind it."""

    def add(self, pieces: Iterable[Piece]) -> None:
        for piece in pieces:
            self._queue.append(piece)
            self.queued_bytes += len(piece.payload)

    def begin(self, start_ms: int) -> None:
        """What waits is forgotten: it goes on from elsewhere."""
        self._queue.clear()
        self.queued_bytes = 0
        self.had_ms.clear()
        self.position_ms = start_ms

    @property
    def is_empty(self) -> bool:
        return not self._queue and not self.lane.waiting_bytes

    @property
    def next_ms(self) -> int | None:
        """The time in the file of what waits; None: it may go, or there is nothing."""
        return self._queue[0].time_ms if self._queue and not self.lane.waiting_bytes else None

    @property
    def heard_ms(self) -> int:
        """Up to where in the file the client needs no sound any more."""
        return self.had_ms.get(AUDIO, 0) if AUDIO in self.wanted else self.position_ms

    def write(self, until_ms: float) -> None:
        """What is due and the peer takes, as much as one turn has."""
        outlet, lane, left = self._outlet, self.lane, TURN_BYTES
        while left > 0 and outlet.is_open and (lane.waiting_bytes or self._load(until_ms)):
            data = lane.take(max(min(WRITE_BYTES, outlet.window.room), 1) if self._is_long else None)
            self._put(data)
            left -= len(data)

    def finish_message(self) -> None:
        """What has begun is sent whole: FFmpeg and GStreamer know no Abort Message."""
        if self.lane.waiting_bytes:
            self._put(self.lane.take())

    def _load(self, until_ms: float) -> bool:
        queue = self._queue
        most = min(WRITE_BYTES, self._outlet.window.room)
        size = 0
        self._is_long = False
        while queue and queue[0].time_ms <= until_ms:
            piece = queue[0]
            if self._is_long:
                if piece.type_id != AUDIO:
                    break
            elif len(piece.payload) > LONG_BYTES:
                if size:
                    break
                self._is_long = True
            elif size >= most:
                break
            size += self._put_into_lane(queue.popleft())
        return size > 0

    def _put_into_lane(self, piece: Piece) -> int:
        """Its size, 1 at least; 0 for what the client doesn't want."""
        type_id, time_ms, payload, is_frame, is_keyframe = piece
        self.queued_bytes -= len(payload)
        if is_frame:
            self.position_ms = max(self.position_ms, time_ms + 1)
        if type_id in self.frames and type_id not in self.wanted:
            return 0
        if is_frame:
            self.frames[type_id] += 1
            self.keyframes += is_keyframe
            self.had_ms[type_id] = time_ms + 1
        self.lane.add(type_id, (time_ms + self.shift_ms) & 0xFFFFFFFF, payload)
        return len(payload) or 1

    def _put(self, data: bytes) -> None:
        self._outlet.write_media([data], len(data))
        self.sent_bytes += len(data)
        self._library.sent_bytes += len(data)
