"""Command messages (RTMP 1.0, sections 7.1.1 and 7.2), values to the end of the message:

    name (string)  transaction id (number; 0 wants no answer)  command object (object, or null)  arguments (any)

Type 20 is AMF0. Type 17, which both ends may use once object encoding 3 was agreed on, has the format byte 0 before
values in AMF0, of which those that follow the marker 11 are in AMF3 (Enhanced RTMP v2, its clarification of AMF3).
As no command begins with the marker 0, that byte alone tells.
"""

from dataclasses import dataclass, field
from typing import Any

from ingest.rtmp import amf0
from ingest.rtmp.errors import RemoteProtocolError
from ingest.rtmp.limits import Limits
from ingest.rtmp.messages.message import Message, MessageType
from ingest.rtmp.messages.values import FORMAT_BYTE, extended, number


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
        return Message(MessageType.COMMAND_AMF3, 0, stream_id, extended(*values))
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
