"""What a client asks of a NetStream (section 7.2.2) that publishes or plays, or to end that; see `playing`, too."""

from typing import Final

from ingest.rtmp import status
from ingest.rtmp.events import PublishRequested, StreamDeleted
from ingest.rtmp.messages.commands import Command
from ingest.rtmp.messages.values import text
from ingest.rtmp.server.base import CommandHandler, ServerBase
from ingest.rtmp.server.playing import PLAYING, TOO_LONG
from ingest.rtmp.server.streams import Asked
from ingest.rtmp.states import StreamState, StreamStep

PUBLISH_TYPES: Final = frozenset({"live", "record", "append"})


def on_publish(connection: ServerBase, stream_id: int, command: Command) -> None:
    stream = connection.stream_of(stream_id)
    name = command.argument(0)
    if stream is not None and name is False:
        connection.stop(stream, command.name)
    elif isinstance(name, str) and not connection.may_be_named(name):
        connection.send_status(stream_id, "error", status.PUBLISH_BAD_NAME, TOO_LONG)
    elif stream is None or not isinstance(name, str) or not stream.move(StreamStep.PUBLISH):
        why = "already publishes" if stream and stream.state is StreamState.PUBLISHING else "can't publish now"
        connection.send_status(stream_id, "error", status.PUBLISH_FAILED, f"This stream {why}.")
    else:
        stream.name = name
        publish_type = text(command.argument(1)).lower()
        connection.report(
            PublishRequested(
                connection.ask(Asked.PUBLISH, command, stream),
                stream.stream_id,
                name,
                publish_type if publish_type in PUBLISH_TYPES else "live",
            )
        )


def on_close_stream(connection: ServerBase, stream_id: int, command: Command) -> None:
    stream = connection.find_stream(stream_id, command.argument(0))
    if stream is not None:
        if stream.state is StreamState.PLAYING:
            connection.send_status(stream.stream_id, "status", status.PLAY_STOP, "Playing stopped.")
        connection.stop(stream, command.name)


def on_delete_stream(connection: ServerBase, stream_id: int, command: Command) -> None:
    """The argument is the stream's id, or from GStreamer its name. There is no answer (section 7.2.2.3)."""
    stream = connection.find_stream(stream_id, command.argument(0))
    if stream is not None:
        connection.stop(stream, command.name)
        del connection.streams[stream.stream_id]
        connection.report(StreamDeleted(stream.stream_id))


NETSTREAM: Final[dict[str, CommandHandler]] = {
    **PLAYING,
    "publish": on_publish,
    "closeStream": on_close_stream,
    "deleteStream": on_delete_stream,
}
