"""Messages to chunks (RTMP 1.0, section 5.3.1)."""

import struct
from dataclasses import dataclass
from typing import Final

from ingest.rtmp.chunks import DEFAULT_CHUNK_SIZE, EXTENDED, MAX_MESSAGE_SIZE, basic_header
from ingest.rtmp.errors import LocalProtocolError
from ingest.rtmp.messages.message import Message

_word: Final = struct.Struct(">I")
_stream_id: Final = struct.Struct("<I")


def encode_message(message: Message, *, chunk_stream_id: int, chunk_size: int) -> bytes:
    """The message under a type 0 header, which needs nothing that was sent before: bytes to share among all players.

    Continuations are type 3 chunks; each repeats the extended timestamp, as FFmpeg's and librtmp's readers need it.
    """
    timestamp = message.timestamp & 0xFFFFFFFF
    header = _type_0(timestamp, len(message.payload), message.type_id, message.stream_id)
    return _chunks(0, chunk_stream_id, header, _extended(timestamp), message.payload, chunk_size)


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
    """Writes messages with the shortest header (types 0 to 3) that says all that changed on the chunk stream.

    What goes out by `encode_message` on the same chunk streams of the same connection would not be known here: an
    endpoint uses one or the other, or writes without compression.
    """

    def __init__(self, *, compress: bool) -> None:
        self.chunk_size = DEFAULT_CHUNK_SIZE
        self._compress = compress
        self._sent: dict[int, _Sent] = {}

    def encode(self, message: Message, chunk_stream_id: int) -> bytes:
        if not self._compress:
            return encode_message(message, chunk_stream_id=chunk_stream_id, chunk_size=self.chunk_size)
        timestamp = message.timestamp & 0xFFFFFFFF
        length = len(message.payload)
        last = self._sent.get(chunk_stream_id)
        delta = (timestamp - last.timestamp) & 0xFFFFFFFF if last else 0
        if last is None or last.stream_id != message.stream_id or delta >= 0x80000000:
            # Also when time goes backwards (5.3.1.2.1).
            chunk_type, time = 0, timestamp
            header = _type_0(timestamp, length, message.type_id, message.stream_id)
            self._sent[chunk_stream_id] = _Sent(timestamp, None, length, message.type_id, message.stream_id)
        else:
            time = delta
            field = min(delta, EXTENDED)
            if last.length != length or last.type_id != message.type_id:
                chunk_type = 1
                header = (field << 32 | _checked(length) << 8 | message.type_id).to_bytes(7, "big")
            elif last.delta != delta:
                chunk_type, header = 2, field.to_bytes(3, "big")
            else:
                chunk_type, header = 3, b""
            last.timestamp, last.delta, last.length, last.type_id = timestamp, delta, length, message.type_id
        return _chunks(chunk_type, chunk_stream_id, header, _extended(time), message.payload, self.chunk_size)


def _checked(length: int) -> int:
    if length > MAX_MESSAGE_SIZE:
        raise LocalProtocolError("a message is longer than its length field can say")
    return length


def _type_0(timestamp: int, length: int, type_id: int, stream_id: int) -> bytes:
    """Timestamp (3 bytes), message length (3), type (1), message stream id (4, little-endian): section 5.3.1.2.1."""
    time = min(timestamp, EXTENDED)
    return (time << 32 | _checked(length) << 8 | type_id).to_bytes(7, "big") + _stream_id.pack(stream_id)


def _extended(time: int) -> bytes:
    return _word.pack(time) if time >= EXTENDED else b""


def _chunks(
    chunk_type: int, chunk_stream_id: int, header: bytes, extended: bytes, payload: bytes, chunk_size: int
) -> bytes:
    first = basic_header(chunk_type, chunk_stream_id) + header + extended
    if len(payload) <= chunk_size:
        return first + payload
    continuation = basic_header(3, chunk_stream_id) + extended
    return first + continuation.join(
        [payload[start : start + chunk_size] for start in range(0, len(payload), chunk_size)]
    )
