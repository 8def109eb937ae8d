"""The chunk stream (RTMP 1.0, section 5.3), and what is sent on it: messages cut into chunks, headers compressed."""

import struct
from collections import deque
from dataclasses import dataclass
from typing import Final

from ingest.rtmp.errors import LocalProtocolError
from ingest.rtmp.messages import MAX_U24, Message, MessageType
from ingest.rtmp.messages.control import read_number

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

CHUNK_STREAMS: Final[dict[int, int]] = {
    MessageType.AUDIO: CSID_AUDIO,
    MessageType.VIDEO: CSID_VIDEO,
    MessageType.DATA_AMF0: CSID_DATA,
    MessageType.DATA_AMF3: CSID_DATA,
    MessageType.COMMAND_AMF0: CSID_COMMAND,
    MessageType.COMMAND_AMF3: CSID_COMMAND,
    MessageType.SHARED_OBJECT_AMF0: CSID_COMMAND,
    MessageType.SHARED_OBJECT_AMF3: CSID_COMMAND,
    MessageType.AGGREGATE: CSID_VIDEO,
}
"""Where messages go out by their type; all others on the control stream."""


def basic_header(chunk_type: int, chunk_stream_id: int) -> bytes:
    """1, 2 or 3 bytes, the shortest that holds the id (section 5.3.1.1). Ids are 2 to 65599."""
    form = chunk_type << 6
    if chunk_stream_id < 64:
        return bytes((form | chunk_stream_id,))
    rest = chunk_stream_id - 64
    if rest < 256:
        return bytes((form, rest))
    return bytes((form | 1, rest & 0xFF, rest >> 8))


WORD: Final = struct.Struct(">I")
STREAM_ID: Final = struct.Struct("<I")
"""The one little-endian field of the protocol."""

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
        """All chunks of the message. Set Chunk Size holds from its own end on (section 5.4.1)."""
        first, continuation = self.begin(message, chunk_stream_id)
        encoded = first + chunk_payload(message.payload, continuation, self.chunk_size)
        if message.type_id == MessageType.SET_CHUNK_SIZE:
            self.chunk_size = read_number(message.payload)
        return encoded

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
    extended = WORD.pack(timestamp) if timestamp >= EXTENDED else b""
    check_length(message.payload)
    common = _common(min(timestamp, EXTENDED), len(message.payload), message.type_id)
    first = basic_header(0, chunk_stream_id) + common + STREAM_ID.pack(message.stream_id) + extended
    return first, basic_header(3, chunk_stream_id) + extended


HEADER_BYTES: Final = 12
"""What a header counts as in `SendQueue.waiting_bytes`: the longest on the chunk streams below 64."""


class SendQueue:
    """`add` messages, `take` bytes: audio goes between the chunks of what is long, if little is taken at a time.

    Audio has a chunk stream of its own, so nothing begins within a message of its chunk stream.
    """

    def __init__(self, writer: ChunkWriter) -> None:
        self.waiting_bytes = 0
        """Payloads and, about, headers: 0 when nothing waits. Nothing is refused: whoever adds much looks here."""
        self._writer = writer
        self._queue: deque[tuple[Message, int]] = deque()
        self._begun: dict[int, tuple[bytes, int]] = {}
        """By chunk stream: how further chunks of the message under way begin, and how much of its payload is gone."""

    def add(self, message: Message, chunk_stream_id: int) -> None:
        """Raises LocalProtocolError if the message is too long."""
        check_length(message.payload)
        self.waiting_bytes += len(message.payload) + HEADER_BYTES
        self._queue.append((message, chunk_stream_id))

    def take(self, limit: int | None = None) -> bytes:
        """Whole chunks up to the one that reaches `limit` bytes. Without a limit all, in the order of `add`: overtaking
        would make nothing come sooner.
        """
        parts: list[bytes] = []
        while self._queue and (limit is None or limit > 0):
            at = 0 if limit is None else self._next()
            message, chunk_stream_id = self._queue[at]
            parts.append(self._take_chunks(message, chunk_stream_id, limit))
            if limit is not None:
                limit -= len(parts[-1])
            if chunk_stream_id not in self._begun:
                del self._queue[at]
        return b"".join(parts)

    def _next(self) -> int:
        """The first message, but for audio that waits behind nothing but video."""
        for at, (message, _) in enumerate(self._queue):
            if message.type_id == MessageType.AUDIO:
                return at
            if message.type_id != MessageType.VIDEO:
                break
        return 0

    def _take_chunks(self, message: Message, chunk_stream_id: int, limit: int | None) -> bytes:
        """Chunks of the message up to the one that reaches `limit`."""
        payload, size = message.payload, self._writer.chunk_size
        if chunk_stream_id in self._begun:
            continuation, start = self._begun.pop(chunk_stream_id)
            header = continuation
        else:
            header, continuation = self._writer.begin(message, chunk_stream_id)
            start = 0
            self.waiting_bytes -= HEADER_BYTES
        stop = len(payload)
        if limit is not None:
            chunks = -(-limit // (size + len(continuation)))
            stop = min(stop, start + chunks * size)
        if stop < len(payload):
            self._begun[chunk_stream_id] = continuation, stop
        self.waiting_bytes -= stop - start
        return header + chunk_payload(payload[start:stop], continuation, size)
