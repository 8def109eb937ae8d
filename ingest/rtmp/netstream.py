"""What a client asks of a NetStream (RTMP 1.0, section 7.2.2): to play, to publish, to pause or seek, to end that."""

from functools import partial
from typing import Any, Final, Literal, TypeGuard

from ingest.rtmp import events, status
from ingest.rtmp.amf import UNDEFINED
from ingest.rtmp.message_streams import CommandHandler, MessageStream, PlayItem, Request, RequestKind, ServerBase
from ingest.rtmp.messages.commands import Command, number, text
from ingest.rtmp.states import StreamState, StreamStep

ANY_START: Final = -2.0
"""`play` with no start: live, else recorded, else wait (section 7.2.2.1)."""
NO_DURATION: Final = -1.0
STREAM_NAME_TOO_LONG: Final = "The stream's name is too long."
QUEUED: Final = (False, 2.0)
"""Values of `reset` that leave the playlist as it is. Flash Player has four numbers: 0 and 2 queue, 1 and 3 reset."""
SWITCHES: Final[dict[str, events.Transition]] = {"switch": "switch", "swap": "swap"}
APPENDS: Final = frozenset({"append", "appendAndWait"})
RESTARTS: Final = frozenset({"reset", "resume"})


# --- play ---


def on_play(connection: ServerBase, stream_id: int, command: Command) -> None:
    """Section 7.2.2.1. It replaces what plays; with `reset` false it waits in the playlist instead."""
    stream = connection.stream_of(stream_id)
    name = command.argument(0)
    if stream is not None and name is False:
        _stop_play(connection, stream, command)
    elif _is_playable(stream, connection, stream_id, name):
        item = PlayItem(name, _start(command.argument(1)), number(command.argument(2), NO_DURATION))
        reset = command.argument(3)
        is_given = reset is not None and reset is not UNDEFINED
        if is_given and reset in QUEUED and stream.state is StreamState.PLAYING:
            _enqueue(connection, stream, item)
        else:
            _begin_play(connection, stream, command, item, reset=is_given and reset not in QUEUED)


def _start(value: Any) -> float:
    """FFmpeg and librtmp give the special values -1 and -2 in thousandths."""
    start = number(value, ANY_START)
    return start / 1000 if start <= -1000 else start


def _is_playable(
    stream: MessageStream | None, connection: ServerBase, stream_id: int, name: Any
) -> TypeGuard[MessageStream]:
    """Whether the message stream can play the name. If not, the client is told so."""
    if isinstance(name, str) and not connection.may_be_named(name):
        reason = STREAM_NAME_TOO_LONG
    elif isinstance(name, str) and stream is not None and stream.state in (StreamState.IDLE, StreamState.PLAYING):
        return True
    else:
        reason = "This stream can't play now."
    connection.send_status(stream_id, "error", status.PLAY_FAILED, reason)
    return False


def _stop_play(connection: ServerBase, stream: MessageStream, command: Command) -> None:
    if stream.state in (StreamState.IDLE, StreamState.PLAYING):
        connection.stop(stream, command.name)


def _begin_play(
    connection: ServerBase, stream: MessageStream, command: Command, item: PlayItem, *, reset: bool
) -> None:
    """Play the item now, in place of what plays and of its playlist."""
    _stop_play(connection, stream, command)
    stream.move(StreamStep.PLAY)
    connection.request_play(stream, item, reset=reset)


def _enqueue(connection: ServerBase, stream: MessageStream, item: PlayItem) -> None:
    if len(stream.playlist) < connection.limits.playlist_items:
        stream.playlist.append(item)
    else:
        connection.send_status(stream.stream_id, "warning", status.PLAY_FAILED, "The playlist is full.")


# --- play2 ---


def on_play2(connection: ServerBase, stream_id: int, command: Command) -> None:
    """Section 7.2.2.2: an object like ActionScript's NetStreamPlayOptions, with `streamName`, `oldStreamName`, `start`,
    `len`, `offset` (as `start`) and `transition`.

    `switch` (or none) goes over to the same content at another bitrate, `swap` to other content, or puts it in the
    place of `oldStreamName` in the playlist; `append` and `appendAndWait` add to the playlist, which `append` begins to
    play; `reset` and `resume` play at once, `resume` from `offset` on; `stop` ends all.
    """
    stream = connection.stream_of(stream_id)
    options = command.argument(0)
    options = options if isinstance(options, dict) else {}
    transition = text(options.get("transition")) or "switch"
    if stream is not None and transition == "stop":
        if stream.state in (StreamState.IDLE, StreamState.PLAYING):
            connection.stop_playing(stream, command.name)
        return
    name: Any = options.get("streamName")
    if not _is_playable(stream, connection, stream_id, name):
        return
    item = PlayItem(name, _start(options.get("start")), number(options.get("len"), NO_DURATION))
    if transition == "resume":
        item = PlayItem(name, number(options.get("offset"), 0), item.duration)
    is_playing = stream.state is StreamState.PLAYING
    if transition in APPENDS:
        _enqueue(connection, stream, item)
        if transition == "append" and not is_playing:
            stream.move(StreamStep.PLAY)
            connection.request_play(stream, stream.playlist.pop(0))
    elif transition in SWITCHES and is_playing:
        if not (transition == "swap" and _swap_waiting(stream, text(options.get("oldStreamName")), item)):
            # What plays goes on until that is there.
            stream.move(StreamStep.SWITCH)
            connection.request_play(stream, item, transition=SWITCHES[transition])
    elif transition in RESTARTS or transition in SWITCHES:
        _begin_play(connection, stream, command, item, reset=transition == "reset")
    else:
        connection.send_status(stream_id, "error", status.PLAY_FAILED, "There is no such transition.")


def _swap_waiting(stream: MessageStream, old_name: str, item: PlayItem) -> bool:
    """Whether the item took the place of one that waits in the playlist."""
    for at, waiting in enumerate(stream.playlist):
        if waiting.name == old_name != stream.name:
            stream.playlist[at] = item
            return True
    return False


# --- While it plays ---


def on_pause(connection: ServerBase, stream_id: int, command: Command) -> None:
    """Section 7.2.2.8; of a publisher, too. `_error` where there is nothing to pause."""
    connection.play_commands += 1
    stream = connection.stream_of(stream_id)
    if stream is None or stream.state not in (StreamState.PLAYING, StreamState.PUBLISHING):
        connection.send_error(command.transaction, status.INVALID_ARG, "There is nothing to pause.")
        return
    paused = command.argument(0) is not False
    at_ms = max(number(command.argument(1), 0), 0)
    connection.report(events.PauseRequested(stream.stream_id, command.transaction, paused, at_ms))


def on_seek(connection: ServerBase, stream_id: int, command: Command) -> None:
    """Section 7.2.2.7. A message that can't be followed is answered by the status Seek.Failed, or the shell's."""
    connection.play_commands += 1
    stream = connection.stream_of(stream_id)
    if stream is None or stream.state is not StreamState.PLAYING:
        connection.send_status(stream_id, "error", status.SEEK_FAILED, "Nothing plays here.")
        return
    connection.report(events.SeekRequested(stream.stream_id, command.transaction, number(command.argument(0), 0)))


def on_receive(connection: ServerBase, stream_id: int, command: Command, kind: Literal["audio", "video"]) -> None:
    """Sections 7.2.2.4 and 7.2.2.5: there is no answer where nothing plays."""
    connection.play_commands += 1
    stream = connection.stream_of(stream_id)
    if stream is not None and stream.state is StreamState.PLAYING:
        connection.report(events.ReceiveRequested(stream.stream_id, kind, command.argument(0) is not False))


PLAY_COMMANDS: Final[dict[str, CommandHandler]] = {
    "play": on_play,
    "play2": on_play2,
    "pause": on_pause,
    "pauseRaw": on_pause,  # Flash Player 10 and later, where it doesn't keep its buffer.
    "seek": on_seek,
    "receiveAudio": partial(on_receive, kind="audio"),
    "receiveVideo": partial(on_receive, kind="video"),
}

PUBLISH_TYPES: Final = frozenset({"live", "record", "append"})


def on_publish(connection: ServerBase, stream_id: int, command: Command) -> None:
    stream = connection.stream_of(stream_id)
    name = command.argument(0)
    if stream is not None and name is False:
        connection.stop(stream, command.name)
    elif isinstance(name, str) and not connection.may_be_named(name):
        connection.send_status(stream_id, "error", status.PUBLISH_BAD_NAME, STREAM_NAME_TOO_LONG)
    elif stream is None or not isinstance(name, str) or not stream.move(StreamStep.PUBLISH):
        why = "already publishes" if stream and stream.state is StreamState.PUBLISHING else "can't publish now"
        connection.send_status(stream_id, "error", status.PUBLISH_FAILED, f"This stream {why}.")
    else:
        stream.name = name
        publish_type = text(command.argument(1)).lower()
        connection.report(
            events.PublishRequested(
                connection.request(Request(RequestKind.PUBLISH, stream)),
                stream.stream_id,
                name,
                publish_type if publish_type in PUBLISH_TYPES else "live",
            )
        )


def on_close_stream(connection: ServerBase, stream_id: int, command: Command) -> None:
    stream = connection.find_stream(stream_id, command.argument(0))
    if stream is not None:
        connection.stop_playing(stream, command.name)


def on_delete_stream(connection: ServerBase, stream_id: int, command: Command) -> None:
    """The argument is the stream's id, or from GStreamer its name. There is no answer (section 7.2.2.3)."""
    stream = connection.find_stream(stream_id, command.argument(0))
    if stream is not None:
        connection.stop(stream, command.name)
        del connection.streams[stream.stream_id]


NETSTREAM_COMMANDS: Final[dict[str, CommandHandler]] = {
    **PLAY_COMMANDS,
    "publish": on_publish,
    "closeStream": on_close_stream,
    "deleteStream": on_delete_stream,
}
