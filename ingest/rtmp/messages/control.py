"""Protocol control messages (RTMP 1.0, section 5.4): message stream 0, chunk stream 2, effective at once. And user
control messages (sections 6.2 and 7.1.7): event (2 bytes), then its values."""

import struct
from enum import IntEnum
from typing import Any, Final

from ingest.rtmp.errors import LocalProtocolError, RemoteProtocolError
from ingest.rtmp.messages import Message, MessageType

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


_event: Final = struct.Struct(">H")


class UserControl(IntEnum):
    """From 26 on they are not in the specification: Flash Media Server sends them, and librtmp makes use of them."""

    STREAM_BEGIN = 0
    STREAM_EOF = 1
    STREAM_DRY = 2
    SET_BUFFER_LENGTH = 3
    STREAM_IS_RECORDED = 4
    PING_REQUEST = 6
    PING_RESPONSE = 7
    SWF_VERIFY_REQUEST = 26
    SWF_VERIFY_RESPONSE = 27
    BUFFER_EMPTY = 31
    BUFFER_READY = 32


USER_CONTROL_LAYOUTS: Final[dict[UserControl, struct.Struct]] = {
    **dict.fromkeys(UserControl, _word),
    UserControl.SET_BUFFER_LENGTH: struct.Struct(">II"),
    UserControl.SWF_VERIFY_REQUEST: struct.Struct(""),
    UserControl.SWF_VERIFY_RESPONSE: struct.Struct(">HII32s"),
}
"""The values of each event: a message stream's id, or for pings a time in ms.

Of SetBufferLength the id and the buffer's length in ms. A request for SWF verification may hold a byte, its kind, which
librtmp takes as 1 if it is missing. Its answer: 0x0101, twice the size of the SWF file, and an HMAC of its hash.
"""


def user_control(event: UserControl, *values: int | bytes) -> Message:
    """The event with its values, as USER_CONTROL_LAYOUTS has them; numbers are taken modulo 2^32."""
    wrapped = [value & 0xFFFFFFFF if isinstance(value, int) else value for value in values]
    return Message(MessageType.USER_CONTROL, 0, 0, _event.pack(event) + USER_CONTROL_LAYOUTS[event].pack(*wrapped))


def read_user_control(payload: bytes) -> tuple[UserControl, tuple[Any, ...]]:
    """The event and its values, as USER_CONTROL_LAYOUTS has them; what follows them is overlooked."""
    try:
        event = UserControl(_event.unpack_from(payload)[0])
        return event, USER_CONTROL_LAYOUTS[event].unpack_from(payload, _event.size)
    except (struct.error, ValueError) as error:
        raise RemoteProtocolError("a user control message that is too short, or whose event is unknown") from error
