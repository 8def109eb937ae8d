"""Command messages (RTMP 1.0, sections 7.1.1 and 7.2): name, transaction id, command object, arguments.

Type 20 is AMF0. Type 17, which clients use after they asked for object encoding 3, has a byte 0 before AMF0 values; as
no command begins with the marker 0, that byte alone tells.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from ingest.rtmp import amf0
from ingest.rtmp.errors import RemoteProtocolError
from ingest.rtmp.limits import Limits
from ingest.rtmp.messages.message import Message, MessageType

FORMAT_BYTE: Final = b"\x00"


@dataclass(slots=True)
class Command:
    name: str
    transaction: float
    """0 when no answer is wanted."""
    command_object: Any = None
    arguments: list[Any] = field(default_factory=list)

    def argument(self, index: int, default: Any = None) -> Any:
        return self.arguments[index] if index < len(self.arguments) else default

    @property
    def answered(self) -> bool:
        return self.transaction != 0


def encode_command(command: Command, stream_id: int = 0) -> Message:
    payload = amf0.encode(command.name, float(command.transaction), command.command_object, *command.arguments)
    return Message(MessageType.COMMAND_AMF0, 0, stream_id, payload)


def decode_command(payload: bytes, limits: Limits) -> Command:
    """Some senders leave out the transaction id or the command object; they count as 0 and null."""
    start = payload.startswith(FORMAT_BYTE)
    values = amf0.decode_all(payload, start, limits, elements=limits.command_amf_elements)
    if not values or not isinstance(values[0], str):
        raise RemoteProtocolError("a command without a name")
    transaction = values[1] if len(values) > 1 and isinstance(values[1], float) else 0.0
    return Command(values[0], transaction, values[2] if len(values) > 2 else None, values[3:])
