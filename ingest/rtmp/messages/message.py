"""What every message has, whatever its family (RTMP 1.0, sections 5.1 and 6.1)."""

from dataclasses import dataclass
from enum import IntEnum

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


@dataclass(slots=True)
class Message:
    """A message to send."""

    type_id: int
    timestamp: int
    """Milliseconds, 32 bits."""
    stream_id: int
    """Message stream id; 0 is the connection itself."""
    payload: bytes
