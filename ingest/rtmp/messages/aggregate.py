"""Aggregate messages (RTMP 1.0, section 7.1.6): several messages of one message stream in one.

Each has a header (section 6.1), its payload, and a back pointer that nobody needs:

    type (1)  payload's size (3)  timestamp (3)  its high byte (1)  message stream (3)  payload  back pointer (4)

The specification shows the four bytes of the timestamp in order; servers have them as FLV tags do, and so it is here.
Timestamps count from that of the aggregate, which is the first message's. Whatever message stream a header names, its
message is of that of the aggregate.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from ingest.rtmp.errors import LimitExceeded, LocalProtocolError
from ingest.rtmp.messages.message import Message, MessageType

_header: Final = struct.Struct(">IHBB3x")
"""Type and size; the timestamp's middle bytes, its low byte, its high byte; the message stream."""
_back_pointer: Final = struct.Struct(">I")

MAX_SIZE: Final = 0xFFFFFF


class Part(NamedTuple):
    """A message within an aggregate."""

    type_id: int
    timestamp: int
    """Milliseconds, 32 bits."""
    payload: bytes


def decode_aggregate(timestamp: int, payload: bytes, most: int) -> tuple[list[Part], bytes]:
    """The messages, with timestamps of the stream, and what is left at the end as no whole message.

    A back pointer that is missing there makes none the less whole. Raises LimitExceeded for more messages than `most`.
    """
    parts: list[Part] = []
    position, offset = 0, 0
    while position + _header.size <= len(payload):
        type_and_size, middle, low, high = _header.unpack_from(payload, position)
        start = position + _header.size
        end = start + (type_and_size & MAX_SIZE)
        if end > len(payload):
            break
        if len(parts) >= most:
            raise LimitExceeded(f"more than {most} messages in aggregates at once")
        sent_at = high << 24 | middle << 8 | low
        if not parts:
            offset = timestamp - sent_at
        parts.append(Part(type_and_size >> 24, (sent_at + offset) & 0xFFFFFFFF, payload[start:end]))
        position = end + _back_pointer.size
    return parts, payload[position:]


def encode_aggregate(stream_id: int, parts: Sequence[Part]) -> Message:
    """One message at least. Raises LocalProtocolError."""
    if not parts:
        raise LocalProtocolError("an aggregate of no messages")
    out = bytearray()
    for type_id, timestamp, payload in parts:
        if len(payload) > MAX_SIZE:
            raise LocalProtocolError("a message is too long for an aggregate")
        start = len(out)
        out += _header.pack(
            type_id << 24 | len(payload), timestamp >> 8 & 0xFFFF, timestamp & 0xFF, timestamp >> 24 & 0xFF
        )
        out += payload
        out += _back_pointer.pack(len(out) - start)
    return Message(MessageType.AGGREGATE, parts[0].timestamp, stream_id, bytes(out))
