"""Messages to chunks (RTMP 1.0, section 5.3.1)."""

import struct
from dataclasses import dataclass
from typing import Final

from ingest.rtmp.chunks import DEFAULT_CHUNK_SIZE, EXTENDED, MAX_MESSAGE_SIZE, basic_header
from ingest.rtmp.errors import LocalProtocolError
from ingest.rtmp.messages.message import Message

_word: Final = struct.Struct(">I")
_stream_id: Final = struct.Struct("<I")

Headers = tuple[bytes, bytes]
"""How a message's first chunk begins, and how each of its other chunks does (type 3)."""


def encode_message(message: Message, *, chunk_stream_id: int, chunk_size: int) -> bytes:
    """The message under a type 0 header, which needs nothing that was sent before: bytes to share among all players."""
    first, continuation = _whole_headers(message, chunk_stream_id)
    return first + cut(message.payload, continuation, chunk_size)


def cut(payload: bytes, continuation: bytes, chunk_size: int) -> bytes:
    """The payload with `continuation` between its chunks."""
    if len(payload) <= chunk_size:
        return payload
    return continuation.join([payload[start : start + chunk_size] for start in range(0, len(payload), chunk_size)])


def check_length(payload: bytes) -> None:
    if len(payload) > MAX_MESSAGE_SIZE:
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
        return first + cut(message.payload, continuation, self.chunk_size)

    def begin(self, message: Message, chunk_stream_id: int) -> Headers:
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


def _whole_headers(message: Message, chunk_stream_id: int) -> Headers:
    """Type 0. Continuations repeat the extended timestamp (5.3.1.3), as FFmpeg's and librtmp's readers need it."""
    timestamp = message.timestamp & 0xFFFFFFFF
    extended = _word.pack(timestamp) if timestamp >= EXTENDED else b""
    check_length(message.payload)
    common = _common(min(timestamp, EXTENDED), len(message.payload), message.type_id)
    first = basic_header(0, chunk_stream_id) + common + _stream_id.pack(message.stream_id) + extended
    return first, basic_header(3, chunk_stream_id) + extended
