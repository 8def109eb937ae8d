"""Data messages (RTMP 1.0, section 7.1.2): the name of a handler and values, as onMetaData and its object.

Type 18 is AMF0; type 15 has a byte 0 before AMF0 values, which some encoders leave out.
"""

from dataclasses import dataclass
from typing import Any, Final

from ingest.rtmp import amf0
from ingest.rtmp.errors import RemoteProtocolError
from ingest.rtmp.limits import Limits
from ingest.rtmp.messages.commands import FORMAT_BYTE
from ingest.rtmp.messages.message import Message, MessageType

SET_DATA_FRAME: Final = "@setDataFrame"
"""Before the name when a publisher wants the server to keep the values for players that come later."""


@dataclass(slots=True)
class Data:
    name: str
    values: list[Any]
    payload: bytes
    """AMF0, from the name on: what is relayed."""


def encode_data(stream_id: int, timestamp: int, *values: Any) -> Message:
    return Message(MessageType.DATA_AMF0, timestamp, stream_id, amf0.encode(*values))


def decode_data(payload: bytes, limits: Limits) -> Data:
    """Takes `@setDataFrame` off. Raises RemoteProtocolError, also when no name comes first."""
    start = 1 if payload.startswith(FORMAT_BYTE) else 0
    name, after = amf0.decode(payload, start, limits)
    if name == SET_DATA_FRAME:
        start = after
        name, after = amf0.decode(payload, start, limits)
    if not isinstance(name, str):
        raise RemoteProtocolError("a data message without a name")
    values = amf0.decode_all(payload, start, limits)
    return Data(name, values[1:], payload[start:])
