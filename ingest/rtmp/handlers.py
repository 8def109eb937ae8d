"""What both ends do with messages of protocol control, user control, aggregates and shared objects, and with answers to
calls (RTMP 1.0, sections 5.4, 6.2, 7.1.3, 7.1.6, 7.1.7 and 7.2.1.2): tables of handlers, from which `server` and
`client` make theirs."""

from functools import partial
from typing import Any, Final

from ingest.rtmp import events
from ingest.rtmp.connection import MEDIA_PER_MESSAGE, Connection, Handler, UserControlHandler
from ingest.rtmp.errors import RemoteProtocolError
from ingest.rtmp.messages import MessageType, control, decode_aggregate
from ingest.rtmp.messages.commands import Command
from ingest.rtmp.messages.control import UserControl
from ingest.rtmp.messages.shared_object import decode_shared_object


def on_acknowledgement(connection: Connection, timestamp: int, stream_id: int, payload: bytes) -> None:
    number = control.read_number(payload)
    connection.window.acknowledge(number)
    connection.report(events.AcknowledgementReceived(number))


def on_window(connection: Connection, timestamp: int, stream_id: int, payload: bytes) -> None:
    # A window of 0 would ask for endless acknowledgements; ours stays in force.
    size = control.read_number(payload)
    if size:
        connection.acknowledging.interval = max(size, connection.limits.acknowledged_bytes)


def on_peer_bandwidth(connection: Connection, timestamp: int, stream_id: int, payload: bytes) -> None:
    """The answer is a Window Acknowledgement Size, if that is another one than the peer has from us (section 5.4.5)."""
    answer = connection.window.restrict(*control.read_peer_bandwidth(payload))
    if answer:
        connection.send_window(answer)


def on_user_control(connection: Connection, timestamp: int, stream_id: int, payload: bytes) -> None:
    """One that can't be read is no reason to end a live stream."""
    try:
        event, values = control.read_user_control(payload)
        handler = connection.user_control_handlers[event]
    except (KeyError, RemoteProtocolError):
        connection.report(events.UnknownMessage(MessageType.USER_CONTROL, stream_id, payload))
    else:
        handler(connection, event, values)


def on_ping_request(connection: Connection, event: UserControl, values: tuple[Any, ...]) -> None:
    connection.send_user_control(UserControl.PING_RESPONSE, *values)


def on_ping_response(connection: Connection, event: UserControl, values: tuple[Any, ...]) -> None:
    connection.window.answered(*values)
    connection.report(events.PingAnswered(*values))


def on_reported(connection: Connection, event: UserControl, values: tuple[Any, ...]) -> None:
    """What the connection does nothing about by itself."""
    connection.report(events.UserControlReceived(event, values))


CONTROL_HANDLERS: Final[dict[int, Handler]] = {
    MessageType.ACKNOWLEDGEMENT: on_acknowledgement,
    MessageType.WINDOW_ACKNOWLEDGEMENT_SIZE: on_window,
    MessageType.SET_PEER_BANDWIDTH: on_peer_bandwidth,
    MessageType.USER_CONTROL: on_user_control,
}
"""Set Chunk Size and Abort are the chunk reader's."""

PING_HANDLERS: Final[dict[int, UserControlHandler]] = {
    UserControl.PING_REQUEST: on_ping_request,
    UserControl.PING_RESPONSE: on_ping_response,
}

MEDIA: Final = frozenset({MessageType.AUDIO, MessageType.VIDEO})
AGGREGATED: Final = MEDIA | {MessageType.DATA_AMF0, MessageType.DATA_AMF3}
"""What aggregates may hold: commands would have to stop the reader, and control is not of a message stream."""


def on_aggregate(connection: Connection, timestamp: int, stream_id: int, payload: bytes) -> None:
    """Each message goes the way of its type. One that has no place here, and a rest, are reported as unknown."""
    connection.require_connected()
    parts, rest = decode_aggregate(timestamp, payload, connection.left * MEDIA_PER_MESSAGE)
    connection.consume_budget(1 + len(parts) // MEDIA_PER_MESSAGE)
    connection.media_messages += len(parts)
    for type_id, sent_at, body in parts:
        if type_id not in MEDIA:
            connection.charge(type_id, body)
        if type_id in AGGREGATED:
            connection.handlers[type_id](connection, sent_at, stream_id, body)
        else:
            connection.report(events.UnknownMessage(type_id, stream_id, body))
    if rest:
        connection.report(events.UnknownMessage(MessageType.AGGREGATE, stream_id, rest))


def on_shared_object(
    connection: Connection,
    timestamp: int,
    stream_id: int,
    payload: bytes,
    *,
    type_id: int = MessageType.SHARED_OBJECT_AMF0,
) -> None:
    connection.require_connected()
    decode = partial(decode_shared_object, amf3=type_id == MessageType.SHARED_OBJECT_AMF3)
    found = connection.read_or_report(decode, type_id, stream_id, payload)
    if found is not None:
        connection.report(events.SharedObjectReceived(found.name, found.version, found.persistent, found.events))


COMPOUND_HANDLERS: Final[dict[int, Handler]] = {
    MessageType.AGGREGATE: on_aggregate,
    MessageType.SHARED_OBJECT_AMF0: on_shared_object,
    MessageType.SHARED_OBJECT_AMF3: partial(on_shared_object, type_id=MessageType.SHARED_OBJECT_AMF3),
}


def on_result(connection: Connection, stream_id: int, command: Command) -> None:
    procedure = connection.calls.complete(command.transaction)
    if procedure is None:
        return
    succeeded = command.name == "_result"
    if procedure == "connect":
        connection.on_connected(succeeded, command)
    values = [command.command_object, *command.arguments]
    connection.report(events.ResultReceived(procedure, command.transaction, succeeded, values))


RESULT_HANDLERS: Final = {"_result": on_result, "_error": on_result}
"""Rows of `Connection.commands`."""
