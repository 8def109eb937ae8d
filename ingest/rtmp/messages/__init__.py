"""What every message has, whatever its family (RTMP 1.0, sections 5.1 and 6.1), and what is that alone: audio and
video, whose payload is the body of an FLV tag (sections 7.1.4 and 7.1.5), and aggregates (section 7.1.6), several
messages of one message stream in one.

The other families: `control` (protocol control and user control), `commands` (commands and data), `shared_object`.

Each message of an aggregate has a header, its payload, and a back pointer that nobody needs:

    type (1)  payload's size (3)  timestamp (3)  its high byte (1)  message stream (3)  payload  back pointer (4)

The specification shows the four bytes of the timestamp in order; servers have them as FLV tags do, and so it is here.
Timestamps count from that of the aggregate, which is the first message's. Whatever message stream a header names, its
message is of that of the aggregate."""

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from ingest.rtmp.errors import LimitExceeded

RawMessage = tuple[int, int, int, bytes]
"""A message as it is read: type id, timestamp in ms, message stream id, payload. A tuple, as each frame makes one."""


class MessageType(IntEnum):
    """Type ids (sections 5.4, 6.2 and 7.1)."""

    SET_CHUNK_SIZE = 1
    ABORT = 2
    ACKNOWLEDGEMENT = 3
    USER_CONTROL = 4
    WINDOW_ACKNOWLEDGEMENT_SIZE = 5
    SET_PEER_BANDWIDTH = 6
    AUDIO = 8
    VIDEO = 9
    DATA_AMF3 = 15
    SHARED_OBJECT_AMF3 = 16
    COMMAND_AMF3 = 17
    DATA_AMF0 = 18
    SHARED_OBJECT_AMF0 = 19
    COMMAND_AMF0 = 20
    AGGREGATE = 22


AUDIO: Final = int(MessageType.AUDIO)
VIDEO: Final = int(MessageType.VIDEO)
AGGREGATE: Final = int(MessageType.AGGREGATE)
"""As plain numbers, which compare faster."""


@dataclass(slots=True)
class Message:
    type_id: int
    timestamp: int
    """Milliseconds, 32 bits."""
    stream_id: int
    """Message stream id; 0 is the connection itself."""
    payload: bytes


TIMESTAMP_WRAP: Final = 1 << 32
TIMESTAMP_HALF: Final = 1 << 31


def timestamp_difference(later: int, earlier: int) -> int:
    """Milliseconds between two timestamps by serial arithmetic: right across the wrap, negative when time goes back."""
    return (later - earlier + TIMESTAMP_HALF) % TIMESTAMP_WRAP - TIMESTAMP_HALF


TAG_HEADER: Final = struct.Struct(">IHBB3x")
"""As FLV has it: type and size; the timestamp's middle bytes, its low byte, its high byte; the message stream."""
BACK_POINTER_BYTES: Final = 4

MAX_U24: Final = 0xFFFFFF
"""The lengths of messages, of FLV's tags and of tracks have 24 bits."""


class AggregatePart(NamedTuple):
    type_id: int
    timestamp: int
    """Milliseconds, 32 bits."""
    payload: bytes


def decode_aggregate(timestamp: int, payload: bytes, most: int) -> tuple[list[AggregatePart], bytes]:
    """The messages, with timestamps of the stream, and what is left at the end as no whole message.

    A back pointer that is missing there makes none the less whole. Raises LimitExceeded for more messages than `most`.
    """
    parts: list[AggregatePart] = []
    position, offset = 0, 0
    while position + TAG_HEADER.size <= len(payload):
        type_and_size, middle, low, high = TAG_HEADER.unpack_from(payload, position)
        start = position + TAG_HEADER.size
        end = start + (type_and_size & MAX_U24)
        if end > len(payload):
            break
        if len(parts) >= most:
            raise LimitExceeded(f"more than {most} messages in aggregates at once")
        sent_at = high << 24 | middle << 8 | low
        if not parts:
            offset = timestamp - sent_at
        parts.append(AggregatePart(type_and_size >> 24, (sent_at + offset) & 0xFFFFFFFF, payload[start:end]))
        position = end + BACK_POINTER_BYTES
    return parts, payload[position:]
