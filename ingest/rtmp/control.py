"""What both ends do with protocol control and user control messages (RTMP 1.0, sections 5.4, 6.2 and 7.1.7)."""

from collections.abc import Callable
from typing import Any, Final

from ingest.rtmp.connection import Connection, Handler
from ingest.rtmp.errors import RemoteProtocolError
from ingest.rtmp.events import AcknowledgementReceived, PingAnswered, UnknownMessage, UserControlReceived
from ingest.rtmp.messages import control, user_control
from ingest.rtmp.messages.message import MessageType
from ingest.rtmp.messages.user_control import UserControl

UserControlHandler = Callable[[Any, UserControl, tuple[Any, ...]], None]
"""Takes the connection, the event and its values."""


def on_acknowledgement(connection: Connection, timestamp: int, stream_id: int, payload: bytes) -> None:
    number = control.read_number(payload)
    connection.window.acknowledge(number)
    connection.report(AcknowledgementReceived(number))


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
    """One that is too short is no reason to end a live stream."""
    try:
        event = user_control.read_event(payload)
        handler = connection.user_control_handlers[event]
        values = user_control.read_values(UserControl(event), payload)
    except (KeyError, RemoteProtocolError):
        connection.report(UnknownMessage(MessageType.USER_CONTROL, stream_id, payload))
    else:
        handler(connection, UserControl(event), values)


def on_ping_request(connection: Connection, event: UserControl, values: tuple[Any, ...]) -> None:
    connection.send_user_control(UserControl.PING_RESPONSE, *values)


def on_ping_response(connection: Connection, event: UserControl, values: tuple[Any, ...]) -> None:
    connection.window.answered(*values)
    connection.report(PingAnswered(*values))


def on_reported(connection: Connection, event: UserControl, values: tuple[Any, ...]) -> None:
    """What the connection does nothing about by itself."""
    connection.report(UserControlReceived(event, values))


CONTROL: Final[dict[int, Handler]] = {
    MessageType.ACKNOWLEDGEMENT: on_acknowledgement,
    MessageType.WINDOW_ACKNOWLEDGEMENT_SIZE: on_window,
    MessageType.SET_PEER_BANDWIDTH: on_peer_bandwidth,
    MessageType.USER_CONTROL: on_user_control,
}
"""Set Chunk Size and Abort are the chunk reader's."""

PINGS: Final[dict[int, UserControlHandler]] = {
    UserControl.PING_REQUEST: on_ping_request,
    UserControl.PING_RESPONSE: on_ping_response,
}
