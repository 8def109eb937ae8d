"""What a client asks of its NetConnection (section 7.2.1)."""

from typing import Final

from ingest.rtmp import status
from ingest.rtmp.amf import UNDEFINED
from ingest.rtmp.capabilities import read_capabilities
from ingest.rtmp.errors import RemoteProtocolError
from ingest.rtmp.events import CloseRequested, ConnectRequested, LengthRequested
from ingest.rtmp.message_streams import CommandHandler, MessageStream, Request, RequestKind, ServerBase
from ingest.rtmp.messages.commands import Command, text
from ingest.rtmp.netstream import STREAM_NAME_TOO_LONG
from ingest.rtmp.states import Phase, Step, StreamState


def on_connect(connection: ServerBase, stream_id: int, command: Command) -> None:
    if connection.phase is not Phase.CONNECTING:
        connection.send_error(command.transaction, status.CONNECT_REJECTED, "This connection is connected already.")
        return
    if command.rest and command.command_object is None:
        raise RemoteProtocolError("a connect whose properties can't be read")
    connection.move(Step.ASK)
    properties = command.command_object if isinstance(command.command_object, dict) else {}
    capabilities = connection.capabilities = read_capabilities(properties, connection.limits)
    connection.report(
        ConnectRequested(
            connection.request(Request(RequestKind.CONNECT, transaction=command.transaction)),
            text(properties.get("app")),
            text(properties.get("tcUrl")),
            text(properties.get("flashVer")),
            capabilities.object_encoding,
            properties,
            command.arguments,
            capabilities,
        )
    )


def on_create_stream(connection: ServerBase, stream_id: int, command: Command) -> None:
    most = connection.limits.message_streams
    if len(connection.streams) >= most:
        description = f"This connection has {most} message streams, and may have no more: delete one first."
        connection.send_error(command.transaction, status.CALL_FAILED, description)
        return
    connection.last_stream_id += 1
    connection.streams[connection.last_stream_id] = MessageStream(connection.last_stream_id)
    connection.send_command(0, "_result", command.transaction, None, float(connection.last_stream_id))


def on_acknowledged(connection: ServerBase, stream_id: int, command: Command) -> None:
    """releaseStream, _checkbw and others: nothing to do, and Haivision's encoders wait for the answer."""
    connection.send_result(command, UNDEFINED)


def on_fc_subscribe(connection: ServerBase, stream_id: int, command: Command) -> None:
    """onFCSubscribe is what players of content delivery networks wait for before they play. There is no onFCUnsubscribe
    to FCUnsubscribe: librtmp would close."""
    connection.send_result(command, UNDEFINED)
    connection.send_publish_notice("onFCSubscribe", status.PLAY_START, "Subscribed.")


def on_stream_length(connection: ServerBase, stream_id: int, command: Command) -> None:
    """getStreamLength: seconds; 0 for what is live, and where it can't be asked."""
    name = text(command.argument(0))
    request_id = connection.expect_answer(command) if command.answered and connection.may_be_named(name) else None
    if request_id is None:
        connection.send_result(command, 0.0)
    else:
        connection.report(LengthRequested(request_id, name))


def on_close(connection: ServerBase, stream_id: int, command: Command) -> None:
    """Section 7.2.1; its message is not described, and it has no answer."""
    for stream in list(connection.streams.values()):
        connection.stop(stream, command.name)
    connection.report(CloseRequested())
    connection.move(Step.CLOSE)


def on_fc_publish(connection: ServerBase, stream_id: int, command: Command) -> None:
    """Comes before publish, from some encoders after it. onFCPublish, which FMLE shows, waits for the decision."""
    name = text(command.argument(0))
    for stream in connection.streams.values():
        if stream.state is StreamState.PUBLISHING and stream.name == name:
            connection.send_result(command, UNDEFINED)
            connection.send_publish_notice("onFCPublish", status.PUBLISH_START, stream.public_name)
            return
    most = connection.limits.message_streams
    if not connection.may_be_named(name):
        connection.refuse_call(command, STREAM_NAME_TOO_LONG)
    elif len(connection.fc_published_names) >= most and name not in connection.fc_published_names:
        connection.refuse_call(command, f"{most} names await their publish, as many as may: publish one first.")
    else:
        connection.fc_published_names |= {name}
        connection.send_result(command, UNDEFINED)


def on_fc_unpublish(connection: ServerBase, stream_id: int, command: Command) -> None:
    stream = connection.find_stream(stream_id, command.argument(0), StreamState.PUBLISHING)
    if stream is not None:
        connection.send_publish_notice("onFCUnpublish", status.UNPUBLISH_SUCCESS, stream.public_name)
    connection.send_result(command, UNDEFINED)
    if stream is not None:
        connection.stop(stream, command.name)


ALWAYS_ANSWERED: Final = frozenset({"createStream"})
"""Whatever the transaction id: the client can't know the stream's id otherwise."""

NETCONNECTION_COMMANDS: Final[dict[str, CommandHandler]] = {
    "connect": on_connect,
    "createStream": on_create_stream,
    "releaseStream": on_acknowledged,
    "_checkbw": on_acknowledged,
    "FCSubscribe": on_fc_subscribe,
    "FCUnsubscribe": on_acknowledged,
    "_onbwcheck": on_acknowledged,
    "getStreamLength": on_stream_length,
    "FCPublish": on_fc_publish,
    "FCUnpublish": on_fc_unpublish,
    "close": on_close,
}
