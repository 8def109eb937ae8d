"""Data messages (RTMP 1.0, section 7.1.2), values to the end of the message:

    '@setDataFrame' (string; may be missing)  name of a handler (string)  values (any), as onMetaData and its object

Type 18 is AMF0. Type 15 has the format byte 0, which some encoders leave out, before values in AMF0, of which those
that follow the marker 11 are in AMF3. Players get none of that, as FFmpeg knows type 18 and AMF0 only.
"""

from dataclasses import dataclass
from typing import Any, Final

from ingest.rtmp import amf0
from ingest.rtmp.errors import LocalProtocolError, RemoteProtocolError
from ingest.rtmp.limits import Limits
from ingest.rtmp.messages.message import Message, MessageType
from ingest.rtmp.messages.values import FORMAT_BYTE, extended

SET_DATA_FRAME: Final = "@setDataFrame"
"""Before the name when a publisher wants the server to keep the values for players that come later."""


@dataclass(slots=True)
class Data:
    """`values` and `payload` are AMF0 without AMF3 (see `amf0.Plain`)."""

    name: str
    values: list[Any]
    payload: bytes
    """From the name on: what is relayed. The very bytes that came, if no value was in AMF3."""
    kept: bool = False
    """`@setDataFrame` came before it: players that come later are to have it, too."""
    rest: bytes = b""
    """What followed that can't be read: it is not relayed."""


def encode_data(stream_id: int, timestamp: int, *values: Any, amf3: bool = False) -> Message:
    """Type 18, or 15 if `amf3`."""
    if amf3:
        return Message(MessageType.DATA_AMF3, timestamp, stream_id, extended(*values))
    return Message(MessageType.DATA_AMF0, timestamp, stream_id, amf0.encode(*values))


def decode_data(payload: bytes, limits: Limits) -> Data:
    """Takes `@setDataFrame` off, and stray bytes behind the values: some encoders have them.

    Raises RemoteProtocolError, also when no name comes first, when nothing behind it can be read, or when what would be
    relayed is longer than a data message may be: values in AMF0 take more bytes than in AMF3, whose tables stand for
    much by little.
    """
    start = 1 if payload.startswith(FORMAT_BYTE) else 0
    decoder = amf0.Decoder(payload, start, limits, limits.amf_elements, plain=True)
    name = decoder.value(0)
    kept = name == SET_DATA_FRAME
    if kept:
        start = decoder.position
        name = decoder.value(0)
    if not isinstance(name, str):
        raise RemoteProtocolError("a data message without a name")
    values = decoder.readable()
    rest = payload[decoder.position :]
    if rest and not values:
        raise RemoteProtocolError("a data message of which nothing but the name can be read")
    if decoder.amf3 is None:
        relayed = payload[start : decoder.position]
    else:
        try:
            relayed = amf0.encode(name, *values)
        except LocalProtocolError as error:
            raise RemoteProtocolError("a data message has values in AMF3 for which AMF0 has no form") from error
    if len(relayed) > limits.data_message_bytes:
        raise RemoteProtocolError(f"a data message of more than {limits.data_message_bytes} bytes in AMF0")
    return Data(name, values, relayed, kept, rest)
