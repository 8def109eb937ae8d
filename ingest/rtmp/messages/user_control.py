"""User control messages (RTMP 1.0, sections 6.2 and 7.1.7): event (2 bytes), then its values."""

import struct
from enum import IntEnum
from typing import Any, Final

from ingest.rtmp.errors import RemoteProtocolError
from ingest.rtmp.messages.message import Message, MessageType

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


_NUMBER: Final = struct.Struct(">I")

LAYOUTS: Final[dict[UserControl, struct.Struct]] = {
    **dict.fromkeys(UserControl, _NUMBER),
    UserControl.SET_BUFFER_LENGTH: struct.Struct(">II"),
    UserControl.SWF_VERIFY_REQUEST: struct.Struct(""),
    UserControl.SWF_VERIFY_RESPONSE: struct.Struct(">HII32s"),
}
"""The values of each event: a message stream's id, or for pings a time in ms.

Of SetBufferLength the id and the buffer's length in ms. A request for SWF verification may hold a byte, its kind, which
librtmp takes as 1 if it is missing. Its answer: 0x0101, twice the size of the SWF file, and an HMAC of its hash.
"""


def user_control(event: UserControl, *values: int | bytes) -> Message:
    """The event with its values, as LAYOUTS has them; numbers are taken modulo 2^32."""
    wrapped = [value & 0xFFFFFFFF if isinstance(value, int) else value for value in values]
    return Message(MessageType.USER_CONTROL, 0, 0, _event.pack(event) + LAYOUTS[event].pack(*wrapped))


def read_event(payload: bytes) -> int:
    if len(payload) < _event.size:
        raise RemoteProtocolError("a user control message is too short")
    event: int = _event.unpack_from(payload)[0]
    return event


def read_values(event: UserControl, payload: bytes) -> tuple[Any, ...]:
    """The event's values, as LAYOUTS has them; what follows them is overlooked."""
    layout = LAYOUTS[event]
    if len(payload) < _event.size + layout.size:
        raise RemoteProtocolError("a user control message is too short")
    return layout.unpack_from(payload, _event.size)
