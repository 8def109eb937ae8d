"""Command and data messages (RTMP 1.0, sections 7.1.1, 7.1.2 and 7.2): values to the end of the message.

    command  name (string)  transaction id (number; 0 wants no answer)  command object (object, or null)  arguments
    (any) data     '@setDataFrame' (string; may be missing)  name of a handler (string)  values (any), as onMetaData and
    its object

Types 20 and 18 are AMF0. Types 17 and 15, which both ends may use once object encoding 3 was agreed on, have the format
byte 0 before values in AMF0, of which those that follow the marker 11 are in AMF3 (Enhanced RTMP v2, its clarification
of AMF3); so has type 16, a shared object. As no command begins with the marker 0, that byte alone tells; some encoders
leave it out of data. Players get data as type 18 in AMF0 alone, as FFmpeg knows nothing else."""

from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final

from ingest.rtmp.amf import Amf3, Singleton, TypedObject, amf0
from ingest.rtmp.errors import LocalProtocolError, RemoteProtocolError
from ingest.rtmp.limits import Limits
from ingest.rtmp.messages import Message, MessageType

FORMAT_BYTE: Final = b"\x00"

SIMPLE: Final = frozenset({str, float, int, bool, type(None), Singleton, TypedObject, Amf3})
"""What is written in AMF0 beside AMF3: texts and numbers, as Flash Player does, and objects of classes whose traits
are not known."""


def in_amf3(value: Any) -> Any:
    """The value, to be written in AMF3 if it isn't simple."""
    return value if type(value) in SIMPLE else Amf3(value)


def encode_in_amf3(*values: Any) -> bytes:
    """The body of a message of type 15 or 17. Raises LocalProtocolError."""
    return FORMAT_BYTE + amf0.encode(*map(in_amf3, values))


def text(value: Any) -> str:
    """The value if it is a text, else none."""
    return value if isinstance(value, str) else ""


def number(value: Any, default: float) -> float:
    """The value if it is a number, finite: AMF3 has integers too."""
    return value if isinstance(value, float | int) and not isinstance(value, bool) and isfinite(value) else default


@dataclass(slots=True)
class Command:
    name: str
    transaction: float
    """0 when no answer is wanted."""
    command_object: Any = None
    arguments: list[Any] = field(default_factory=list)
    rest: bytes = field(default=b"", repr=False)
    """What followed that can't be read."""

    def argument(self, index: int, default: Any = None) -> Any:
        return self.arguments[index] if index < len(self.arguments) else default

    @property
    def answered(self) -> bool:
        return self.transaction != 0


def encode_command(command: Command, stream_id: int = 0, *, amf3: bool = False) -> Message:
    """Type 20, or 17 if `amf3`. Name and transaction id are AMF0 in both, as Flash Player has it."""
    values = (command.name, float(command.transaction), command.command_object, *command.arguments)
    if amf3:
        return Message(MessageType.COMMAND_AMF3, 0, stream_id, encode_in_amf3(*values))
    return Message(MessageType.COMMAND_AMF0, 0, stream_id, amf0.encode(*values))


def decode_command(payload: bytes, limits: Limits) -> Command:
    """Of either type. Some senders leave out the transaction id or the command object; they count as 0 and null. Some
    have stray bytes behind the values: these are taken as far as they can be read.

    Red5 writes names and transaction ids in AMF3 too. Raises RemoteProtocolError, when no name comes first.
    """
    decoder = amf0.Decoder(payload, int(payload.startswith(FORMAT_BYTE)), limits, limits.command_amf_elements)
    values = decoder.readable()
    if not values or not isinstance(values[0], str):
        raise RemoteProtocolError("a command without a name")
    transaction = float(number(values[1], 0)) if len(values) > 1 else 0.0
    command_object = values[2] if len(values) > 2 else None
    return Command(values[0], transaction, command_object, values[3:], payload[decoder.position :])


SET_DATA_FRAME: Final = "@setDataFrame"
"""Before the name when a publisher wants the server to keep the values for players that come later."""


@dataclass(slots=True)
class Data:
    """`values` and `payload` are AMF0 without AMF3 (see `Amf3ToAmf0`)."""

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
        return Message(MessageType.DATA_AMF3, timestamp, stream_id, encode_in_amf3(*values))
    return Message(MessageType.DATA_AMF0, timestamp, stream_id, amf0.encode(*values))


def decode_data(payload: bytes, limits: Limits) -> Data:
    """Takes `@setDataFrame` off, and stray bytes behind the values: some encoders have them.

    Raises RemoteProtocolError, also when no name comes first, when nothing behind it can be read, or when what would be
    relayed is longer than a data message may be: values in AMF0 take more bytes than in AMF3, whose tables stand for
    much by little.
    """
    start = 1 if payload.startswith(FORMAT_BYTE) else 0
    decoder = amf0.Decoder(payload, start, limits, limits.amf_elements, as_amf0=True)
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
