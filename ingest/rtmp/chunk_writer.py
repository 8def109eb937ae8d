"""The chunk stream (RTMP 1.0, section 5.3), and what is sent on it: messages cut into chunks, headers compressed.

In the queue what is urgent goes between the chunks of what is long:

| queued | overtakes |
|---|---|
| protocol control (types 1, 2, 3, 5, 6), PingRequest, PingResponse | all but one another |
| audio | video that was queued since the last message of any other kind |
| all else: video, commands, data, shared objects, the other user control events | nothing |

So a deleteStream does not overtake media, nor do media overtake the status that announces them."""

import struct
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import count
from operator import itemgetter
from typing import Final

from ingest.rtmp.errors import LocalProtocolError
from ingest.rtmp.messages import MAX_U24, Message, MessageType, control
from ingest.rtmp.messages.control import UserControl

DEFAULT_CHUNK_SIZE: Final = 128
"""Bytes of payload in a chunk until Set Chunk Size says otherwise (section 5.4.1)."""


EXTENDED: Final = 0xFFFFFF
"""In the timestamp field: the value follows in 4 bytes of its own (section 5.3.1.3)."""

# The chunk streams that we send on. Only 2 has a fixed meaning; the others are what servers and encoders commonly use.
CSID_CONTROL: Final = 2
CSID_COMMAND: Final = 3
CSID_AUDIO: Final = 4
CSID_DATA: Final = 4
CSID_STATUS: Final = 5
CSID_VIDEO: Final = 6


def basic_header(chunk_type: int, chunk_stream_id: int) -> bytes:
    """1, 2 or 3 bytes, the shortest that holds the id (section 5.3.1.1). Ids are 2 to 65599."""
    form = chunk_type << 6
    if chunk_stream_id < 64:
        return bytes((form | chunk_stream_id,))
    rest = chunk_stream_id - 64
    if rest < 256:
        return bytes((form, rest))
    return bytes((form | 1, rest & 0xFF, rest >> 8))


_word: Final = struct.Struct(">I")
_stream_id: Final = struct.Struct("<I")

ChunkHeaders = tuple[bytes, bytes]
"""How a message's first chunk begins, and how each of its other chunks does (type 3)."""


def encode_message(message: Message, *, chunk_stream_id: int, chunk_size: int) -> bytes:
    """The message under a type 0 header, which needs nothing that was sent before: bytes to share among all players."""
    first, continuation = _whole_headers(message, chunk_stream_id)
    return first + chunk_payload(message.payload, continuation, chunk_size)


def chunk_payload(payload: bytes, continuation: bytes, chunk_size: int) -> bytes:
    """The payload with `continuation` between its chunks."""
    if len(payload) <= chunk_size:
        return payload
    return continuation.join([payload[start : start + chunk_size] for start in range(0, len(payload), chunk_size)])


def check_length(payload: bytes) -> None:
    if len(payload) > MAX_U24:
        raise LocalProtocolError("a message is longer than its length field can say")


@dataclass(slots=True)
class _Sent:
    """The last header on a chunk stream, with the fields that the next one may leave out."""

    timestamp: int
    delta: int | None
    """None after a type 0 header: peers disagree on what a type 3 chunk means then."""
    length: int
    type_id: int
    stream_id: int


class ChunkWriter:
    """Writes messages with the shortest header (types 0 to 3) that says all that changed on the chunk stream, as far as
    receivers agree on what it means.

    What goes out by `encode_message` on the same chunk streams of the same connection would not be known here: an
    endpoint uses one or the other, or writes without compression.
    """

    def __init__(self, *, compress: bool) -> None:
        self.chunk_size = DEFAULT_CHUNK_SIZE
        self._compress = compress
        self._sent: dict[int, _Sent] = {}

    def encode(self, message: Message, chunk_stream_id: int) -> bytes:
        """All chunks of the message."""
        first, continuation = self.begin(message, chunk_stream_id)
        return first + chunk_payload(message.payload, continuation, self.chunk_size)

    def begin(self, message: Message, chunk_stream_id: int) -> ChunkHeaders:
        """The message is the next to begin on its chunk stream; nothing else may begin there before its end."""
        if not self._compress:
            return _whole_headers(message, chunk_stream_id)
        check_length(message.payload)
        timestamp = message.timestamp & 0xFFFFFFFF
        length = len(message.payload)
        last = self._sent.get(chunk_stream_id)
        delta = (timestamp - last.timestamp) & 0xFFFFFFFF if last else 0
        if last is None or last.stream_id != message.stream_id or delta >= EXTENDED:
            # Also when time goes backwards (5.3.1.2.1), which is a delta of 2^31 and more; and when it leaps by hours,
            # as some receivers take an extended delta for a timestamp.
            headers = _whole_headers(message, chunk_stream_id)
            self._sent[chunk_stream_id] = _Sent(timestamp, None, length, message.type_id, message.stream_id)
            return headers
        if last.length != length or last.type_id != message.type_id:
            header = basic_header(1, chunk_stream_id) + _common(delta, length, message.type_id)
        elif last.delta != delta:
            header = basic_header(2, chunk_stream_id) + delta.to_bytes(3, "big")
        else:
            header = basic_header(3, chunk_stream_id)
        last.timestamp, last.delta, last.length, last.type_id = timestamp, delta, length, message.type_id
        return header, basic_header(3, chunk_stream_id)


def _common(time: int, length: int, type_id: int) -> bytes:
    """Timestamp or delta (3 bytes), message length (3), type (1): sections 5.3.1.2.1 and 5.3.1.2.2."""
    return (time << 32 | length << 8 | type_id).to_bytes(7, "big")


def _whole_headers(message: Message, chunk_stream_id: int) -> ChunkHeaders:
    """Type 0. Continuations repeat the extended timestamp (5.3.1.3), as FFmpeg's and librtmp's readers need it."""
    timestamp = message.timestamp & 0xFFFFFFFF
    extended = _word.pack(timestamp) if timestamp >= EXTENDED else b""
    check_length(message.payload)
    common = _common(min(timestamp, EXTENDED), len(message.payload), message.type_id)
    first = basic_header(0, chunk_stream_id) + common + _stream_id.pack(message.stream_id) + extended
    return first, basic_header(3, chunk_stream_id) + extended


PROTOCOL_CONTROL: Final = frozenset(
    {
        MessageType.SET_CHUNK_SIZE,
        MessageType.ABORT,
        MessageType.ACKNOWLEDGEMENT,
        MessageType.WINDOW_ACKNOWLEDGEMENT_SIZE,
        MessageType.SET_PEER_BANDWIDTH,
    }
)
PING_EVENTS: Final = frozenset(
    event.to_bytes(2, "big") for event in (UserControl.PING_REQUEST, UserControl.PING_RESPONSE)
)
"""How their payloads begin."""

URGENT: Final = -1
"""In place of the stretch."""
MEDIA_RANKS: Final[dict[int, int]] = {MessageType.AUDIO: 0, MessageType.VIDEO: 1}
BARRIER_RANK: Final = 2

HEADER_BYTES: Final = 12
"""What a header counts as in `Outbox.waiting_bytes`: the longest on the chunk streams below 64."""


class _Queued:
    """A message, and how much of it is gone."""

    __slots__ = ("chunk_stream_id", "continuation", "message", "sent")

    def __init__(self, message: Message, chunk_stream_id: int) -> None:
        self.message = message
        self.chunk_stream_id = chunk_stream_id
        self.continuation = b""
        """How its further chunks begin; nothing before its first."""
        self.sent = 0
        """Bytes of its payload."""

    @property
    def left_bytes(self) -> int:
        """0 when all of it is gone."""
        return len(self.message.payload) - self.sent + (0 if self.continuation else HEADER_BYTES)


_QueuePosition = tuple[int, int, int, _Queued]
"""The stretch (a barrier is the last of each), the rank within it, and the number: the order of `add`."""
_queue_number: Final = itemgetter(2)


class SendQueue:
    """`add` messages, `take` bytes. Headers are compressed in the order in which messages begin."""

    def __init__(self, writer: ChunkWriter) -> None:
        self.waiting_bytes = 0
        """Payloads and, about, headers: 0 when nothing waits. Nothing is refused: whoever adds much looks here."""
        self._writer = writer
        self._added: list[tuple[Message, int]] = []
        """What has no place yet: it needs none where all is taken at once, as from a server's connection."""
        self._heap: list[_QueuePosition] = []
        self._begun: dict[int, _Queued] = {}
        """By chunk stream: what has to end before another message begins there."""
        self._numbers = count(1)
        self._stretch = 0

    def add(self, message: Message, chunk_stream_id: int) -> None:
        """Raises LocalProtocolError if the message is too long."""
        check_length(message.payload)
        self.waiting_bytes += len(message.payload) + HEADER_BYTES
        self._added.append((message, chunk_stream_id))

    def take(self, limit: int | None = None) -> bytes:
        """Whole chunks up to the one that reaches `limit` bytes. Without a limit all, in the order of `add`: overtaking
        would make nothing come sooner.

        Set Chunk Size holds from its own last chunk on, also within another message (section 5.4.1).
        """
        if limit is None:
            return self._take_all()
        self._place_added()
        heap = self._heap
        parts = []
        while heap and limit > 0:
            parts.append(self._take_chunks(heap[0][3], limit))
            limit -= len(parts[-1])
            while heap and not heap[0][3].left_bytes:
                heappop(heap)
        return b"".join(parts)

    def abort(self, stream_id: int) -> None:
        """Drops the audio and video of a message stream. An Abort Message, before all else, gives up what is sent in
        part (section 5.4.2). nginx-rtmp and FFmpeg overlook it: begin nothing on the same chunk streams with them."""

        def is_dropped(queued: _Queued) -> bool:
            return queued.message.type_id in MEDIA_RANKS and queued.message.stream_id == stream_id

        self._place_added()
        self.waiting_bytes -= sum(queued.left_bytes for *_, queued in self._heap if is_dropped(queued))
        self._heap = [place for place in self._heap if place[3].left_bytes and not is_dropped(place[3])]
        heapify(self._heap)
        for chunk_stream_id in [key for key, queued in self._begun.items() if is_dropped(queued)]:
            del self._begun[chunk_stream_id]
            # A number below all others: before what follows on the chunk stream, also in the order of `add`.
            queued = _Queued(control.abort(chunk_stream_id), CSID_CONTROL)
            heappush(self._heap, (URGENT, 0, -next(self._numbers), queued))
            self.waiting_bytes += queued.left_bytes

    def _place_added(self) -> None:
        for message, chunk_stream_id in self._added:
            stretch, rank = URGENT, 0
            if not _is_urgent(message):
                stretch, rank = self._stretch, MEDIA_RANKS.get(message.type_id, BARRIER_RANK)
                if rank == BARRIER_RANK:
                    self._stretch += 1
            heappush(self._heap, (stretch, rank, next(self._numbers), _Queued(message, chunk_stream_id)))
        self._added.clear()

    def _take_all(self) -> bytes:
        parts = []
        places, self._heap = sorted(self._heap, key=_queue_number), []
        for *_, queued in places:
            while queued.left_bytes:
                parts.append(self._take_chunks(queued, None))
        added, self._added = self._added, []
        for message, chunk_stream_id in added:
            parts.append(self._writer.encode(message, chunk_stream_id))
            self._note_end(message)
        self.waiting_bytes = 0
        return b"".join(parts)

    def _take_chunks(self, queued: _Queued, limit: int | None) -> bytes:
        """Chunks of the message up to the one that reaches `limit`, or of the one that it has to wait for."""
        queued = self._begun.get(queued.chunk_stream_id, queued)
        payload, start, size = queued.message.payload, queued.sent, self._writer.chunk_size
        self.waiting_bytes -= queued.left_bytes
        header = queued.continuation
        if not header:
            header, queued.continuation = self._writer.begin(queued.message, queued.chunk_stream_id)
            self._begun[queued.chunk_stream_id] = queued
        stop = len(payload)
        if limit is not None:
            chunks = -(-limit // (size + len(queued.continuation)))
            stop = min(stop, start + chunks * size)
        queued.sent = stop
        self.waiting_bytes += queued.left_bytes
        if not queued.left_bytes:
            del self._begun[queued.chunk_stream_id]
            self._note_end(queued.message)
        return header + chunk_payload(payload[start:stop], queued.continuation, size)

    def _note_end(self, message: Message) -> None:
        if message.type_id == MessageType.SET_CHUNK_SIZE:
            self._writer.chunk_size = control.read_number(message.payload)


def _is_urgent(message: Message) -> bool:
    type_id = message.type_id
    return type_id in PROTOCOL_CONTROL or (type_id == MessageType.USER_CONTROL and message.payload[:2] in PING_EVENTS)
