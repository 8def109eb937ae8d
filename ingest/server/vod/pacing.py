"""How a recording is sent: by the clock, as much ahead as the client wants, on chunk streams of its own.

What waits to be sent to one player, what of it may go, and how far it has come.

No other message goes out on them, so that what is written beside (answers, the shared bytes of a live stream) can come
between any two chunks: control never waits for a long frame."""

from collections import deque
from collections.abc import Iterable
from typing import Final

from ingest.live.message import OUT_CHUNK_SIZE
from ingest.rtmp.chunk_writer import ChunkWriter, SendQueue
from ingest.rtmp.messages import Message, MessageType
from ingest.server.output import Outlet
from ingest.server.vod.flv_source import AUDIO, VIDEO, RecordedMessage
from ingest.server.vod.library import Library

DEFAULT_AHEAD_MS: Final = 3000
"""For clients that set no buffer length; FFmpeg sets this."""
LEAST_AHEAD_MS: Final = 500
"""Clients that want less would run dry at each breath of the network."""
GATHERED: Final = 4
"""A player is looked at again when this part of what it has ahead was played, and no more often than twenty times a
second: so what is sent goes out in few writes."""
LEAST_WAIT_S: Final = 0.05
MOST_WAIT_S: Final = 1.0


class Pacing:
    """`now`: seconds, monotonic. Times of the file: milliseconds."""

    def __init__(self, ahead_ms: int | None) -> None:
        self._ahead_ms = 0
        self.set_ahead(DEFAULT_AHEAD_MS if ahead_ms is None else ahead_ms)
        self._began = 0.0
        self._first_ms = 0
        self._paused: float | None = None

    def set_ahead(self, ahead_ms: int) -> None:
        self._ahead_ms = max(ahead_ms, LEAST_AHEAD_MS)

    def begin(self, now: float, time_ms: int) -> None:
        """The player has nothing, and begins to play at this time of the file."""
        self._began, self._first_ms = now, time_ms
        if self._paused is not None:
            self._paused = now

    def pause(self, now: float) -> None:
        if self._paused is None:
            self._paused = now

    def resume(self, now: float) -> None:
        if self._paused is not None:
            self._began += now - self._paused
            self._paused = None

    def until_ms(self, now: float) -> float:
        """Messages up to this time may be sent."""
        return self._first_ms + (now - self._began) * 1000 + self._ahead_ms

    def played_ms(self, now: float) -> float:
        return self.until_ms(self._paused if self._paused is not None else now) - self._ahead_ms

    def wait_s(self, time_ms: int, now: float) -> float:
        """For how long nothing is to be done until a message of this time, and some behind it, may be sent."""
        gathered_s = min(max(self._ahead_ms / 1000 / GATHERED, LEAST_WAIT_S), MOST_WAIT_S)
        return (time_ms - self.until_ms(now)) / 1000 + gathered_s


FIRST_CSID: Final = 7
"""Above those that servers use for control, answers and live streams."""
OFFSETS: Final[dict[int, int]] = {MessageType.VIDEO: 0, MessageType.AUDIO: 1, MessageType.DATA_AMF0: 2}
LONG_BYTES: Final = OUT_CHUNK_SIZE
"""A longer message has several chunks: what is behind it may come between them."""


class ChunkLane(SendQueue):
    """`number`: one that no other lane of the connection has."""

    def __init__(self, number: int, stream_id: int) -> None:
        writer = ChunkWriter(compress=True)
        writer.chunk_size = OUT_CHUNK_SIZE
        super().__init__(writer)
        self.number = number
        self._stream_id = stream_id
        self._first = FIRST_CSID + number * len(OFFSETS)

    @classmethod
    def beside(cls, others: Iterable["ChunkLane"], stream_id: int) -> "ChunkLane":
        taken = {lane.number for lane in others}
        return cls(min(set(range(len(taken) + 1)) - taken), stream_id)

    def put(self, type_id: int, timestamp: int, payload: bytes) -> None:
        self.add(Message(type_id, timestamp, self._stream_id, payload), self._first + OFFSETS[type_id])


WRITE_BYTES: Final = 64 * 1024
"""Of one write, about."""
SLICE_BYTES: Final = 256 * 1024
"""Written before other connections have their turn."""


class PlaybackQueue:
    """A queue of messages before a lane, which has what one write takes: short messages in the file's order, or a long
    one, cut, with the sound behind it in between."""

    def __init__(self, lane: ChunkLane, outlet: Outlet, library: Library, start_ms: int) -> None:
        self.chunk_lane = lane
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
        self._queue: deque[RecordedMessage] = deque()
        self._is_long = False
        """What waits in the lane is a long message, with sound behind it."""

    def add(self, pieces: Iterable[RecordedMessage]) -> None:
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
        return not self._queue and not self.chunk_lane.waiting_bytes

    @property
    def next_ms(self) -> int | None:
        """The time in the file of what waits; None: it may go, or there is nothing."""
        return self._queue[0].time_ms if self._queue and not self.chunk_lane.waiting_bytes else None

    @property
    def sound_ms(self) -> int:
        """Up to where in the file the client needs no sound any more."""
        return self.had_ms.get(AUDIO, 0) if AUDIO in self.wanted else self.position_ms

    def write(self, until_ms: float) -> None:
        """What is due and the peer takes, as much as one slice has."""
        outlet, lane, left = self._outlet, self.chunk_lane, SLICE_BYTES
        while left > 0 and outlet.is_open and (lane.waiting_bytes or self._load(until_ms)):
            data = lane.take(max(min(WRITE_BYTES, outlet.window.room), 1) if self._is_long else None)
            self._put(data)
            left -= len(data)

    def finish_message(self) -> None:
        """What has begun is sent whole: FFmpeg and GStreamer know no Abort Message."""
        if self.chunk_lane.waiting_bytes:
            self._put(self.chunk_lane.take())

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
            size += self._encode(queue.popleft())
        return size > 0

    def _encode(self, piece: RecordedMessage) -> int:
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
        self.chunk_lane.put(type_id, (time_ms + self.shift_ms) & 0xFFFFFFFF, payload)
        return len(payload) or 1

    def _put(self, data: bytes) -> None:
        self._outlet.write_media([data], len(data))
        self.sent_bytes += len(data)
        self._library.sent_bytes += len(data)
