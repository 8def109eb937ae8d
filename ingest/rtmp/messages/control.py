"""Protocol control messages (RTMP 1.0, section 5.4): message stream 0, chunk stream 2, effective at once."""

import struct
from enum import IntEnum
from typing import Final

from ingest.rtmp.errors import LocalProtocolError, RemoteProtocolError
from ingest.rtmp.messages.message import Message, MessageType

_word: Final = struct.Struct(">I")
_bandwidth: Final = struct.Struct(">IB")

MAX_CHUNK_SIZE: Final = 0x7FFFFFFF


class BandwidthLimit(IntEnum):
    """How Set Peer Bandwidth is meant (section 5.4.5)."""

    HARD = 0
    SOFT = 1
    DYNAMIC = 2


def set_chunk_size(size: int) -> Message:
    """Chunk size in bytes (4), 1 to 2^31 - 1 (section 5.4.1). Raises LocalProtocolError."""
    if not 1 <= size <= MAX_CHUNK_SIZE:
        raise LocalProtocolError(f"{size} is no chunk size")
    return Message(MessageType.SET_CHUNK_SIZE, 0, 0, _word.pack(size))


def abort(chunk_stream_id: int) -> Message:
    """The chunk stream (4) whose message under way is to be dropped (section 5.4.2)."""
    return Message(MessageType.ABORT, 0, 0, _word.pack(chunk_stream_id))


def acknowledgement(bytes_received: int) -> Message:
    """Bytes received so far (4), modulo 2^32 (section 5.4.3)."""
    return Message(MessageType.ACKNOWLEDGEMENT, 0, 0, _word.pack(bytes_received & 0xFFFFFFFF))


def window_acknowledgement_size(size: int) -> Message:
    """The peer acknowledges each `size` bytes (4) (section 5.4.4)."""
    return Message(MessageType.WINDOW_ACKNOWLEDGEMENT_SIZE, 0, 0, _word.pack(size))


def set_peer_bandwidth(size: int, limit: BandwidthLimit) -> Message:
    """The peer may have `size` bytes (4) unacknowledged, by the rule of `limit` (1) (section 5.4.5)."""
    return Message(MessageType.SET_PEER_BANDWIDTH, 0, 0, _bandwidth.pack(size, limit))


def read_number(payload: bytes) -> int:
    """The first 4 bytes of any of these messages."""
    if len(payload) < _word.size:
        raise RemoteProtocolError("a protocol control message is too short")
    number: int = _word.unpack_from(payload)[0]
    return number


def read_peer_bandwidth(payload: bytes) -> tuple[int, int]:
    """Size and limit type, as `BandwidthLimit` has them; dynamic if it is missing."""
    size = read_number(payload)
    return size, payload[_word.size] if len(payload) > _word.size else BandwidthLimit.DYNAMIC
