"""User control messages (RTMP 1.0, sections 6.2 and 7.1.7): event (2 bytes), then its data, mostly one number (4)."""

import struct
from enum import IntEnum
from typing import Final

from ingest.rtmp.errors import RemoteProtocolError
from ingest.rtmp.messages.message import Message, MessageType

_event: Final = struct.Struct(">H")
_number: Final = struct.Struct(">I")


class UserControl(IntEnum):
    """31 and 32 are not in the specification: Flash Media Server sends them, and rtmpdump makes use of them."""

    STREAM_BEGIN = 0
    STREAM_EOF = 1
    STREAM_DRY = 2
    SET_BUFFER_LENGTH = 3
    STREAM_IS_RECORDED = 4
    PING_REQUEST = 6
    PING_RESPONSE = 7
    BUFFER_EMPTY = 31
    BUFFER_READY = 32


def user_control(event: UserControl, *numbers: int) -> Message:
    """The event with its numbers: a message stream's id, a time in ms, or an id and a buffer length in ms."""
    payload = _event.pack(event) + b"".join(_number.pack(number & 0xFFFFFFFF) for number in numbers)
    return Message(MessageType.USER_CONTROL, 0, 0, payload)


def read_event(payload: bytes) -> int:
    if len(payload) < _event.size:
        raise RemoteProtocolError("a user control message is too short")
    event: int = _event.unpack_from(payload)[0]
    return event


def read_number(payload: bytes, index: int = 0) -> int:
    """The event's number at `index`."""
    offset = _event.size + index * _number.size
    if len(payload) < offset + _number.size:
        raise RemoteProtocolError("a user control message is too short")
    number: int = _number.unpack_from(payload, offset)[0]
    return number
