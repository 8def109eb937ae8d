"""The server's end of a connection: the decisions of the shell, and the media path.

`connect` pauses the connection, `publish` and `play` their message stream, until `accept_*` or `reject_*` is called.
Everything else that a client may ask is answered in `netconnection` and `netstream`. Names that clients publish or play
under may be stream keys: no answer repeats them."""

from functools import partial
from typing import Any, Final

from ingest.rtmp import status
from ingest.rtmp.calls import ANSWERS
from ingest.rtmp.capabilities import RELAY_CAPABILITIES
from ingest.rtmp.chunk_writer import CSID_CONTROL
from ingest.rtmp.connection import COMMON_HANDLERS
from ingest.rtmp.errors import LimitExceeded
from ingest.rtmp.events import AudioReceived, BufferLengthSet, StatusSent, VideoReceived
from ingest.rtmp.handlers import (
    COMPOUND_HANDLERS,
    CONTROL_HANDLERS,
    PING_HANDLERS,
    RESULT_HANDLERS,
    on_reported,
    on_user_control,
)
from ingest.rtmp.message_streams import MessageStream, Request, RequestKind, ServerBase
from ingest.rtmp.messages import AUDIO, VIDEO, MessageType, RawMessage, control
from ingest.rtmp.messages.commands import Command, encode_data
from ingest.rtmp.messages.control import UserControl
from ingest.rtmp.netconnection import ALWAYS_ANSWERED, NETCONNECTION_COMMANDS
from ingest.rtmp.netstream import NETSTREAM_COMMANDS
from ingest.rtmp.run_reader import MediaSink
from ingest.rtmp.states import Phase, Step, StreamState, StreamStep

CONNECT_PROPERTIES: Final = {"fmsVer": "FMS/3,5,7,7009", "capabilities": 31.0, "mode": 1.0}
"""What clients look for to know what kind of server this is."""

CONNECTED: Final = Phase.CONNECTED
PUBLISHING: Final = StreamState.PUBLISHING
REQUESTED_STATES: Final = frozenset(
    {StreamState.PUBLISH_REQUESTED, StreamState.PLAY_REQUESTED, StreamState.SWITCH_REQUESTED}
)
NAMING: Final = frozenset({"FCUnpublish", "closeStream", "deleteStream"})
"""Commands that name their message stream by an argument."""


class ServerConnection(ServerBase):
    """See the docstring of `ingest.rtmp` for how a shell drives it."""

    __slots__ = ()

    # --- Decisions ---

    def accept_connect(
        self, request_id: int, *, properties: dict[str, Any] | None = None, info: dict[str, Any] | None = None
    ) -> None:
        """Queues Window Acknowledgement Size, Set Peer Bandwidth, Stream Begin, Set Chunk Size and the result.

        Set Chunk Size comes before the result, and never again: OBS overlooks a later one. `properties` and `info` are
        added to the two objects of the result. Clients of Enhanced RTMP are told there what the server knows of it.
        """
        request = self.resolve_request(request_id, RequestKind.CONNECT)
        self.move(Step.ACCEPT)
        self.send_window(self._own_window)
        self._queue(control.set_peer_bandwidth(self._own_window, control.BandwidthLimit.DYNAMIC), CSID_CONTROL)
        self.send_user_control(UserControl.STREAM_BEGIN, 0)
        self.send_chunk_size(self._chunk_size)
        description = "Connection succeeded."
        answer: dict[str, Any] = {
            **status.info_object("status", status.CONNECT_SUCCESS, description),
            "objectEncoding": self.capabilities.object_encoding,
            **(info or {}),
        }
        offered = RELAY_CAPABILITIES.properties() if self.capabilities.enhanced else {}
        command_object = {**CONNECT_PROPERTIES, **offered, **(properties or {})}
        self.send_command(0, "_result", request.transaction, command_object, answer)
        self.amf3 = self.capabilities.object_encoding == 3  # From the next message on.
        self._events.append(StatusSent(0, "status", status.CONNECT_SUCCESS, description))

    def reject_connect(self, request_id: int, code: str, description: str, **info: Any) -> None:
        """Queues `_error`. The shell then closes the socket, as some clients would wait for ever."""
        request = self.resolve_request(request_id, RequestKind.CONNECT)
        self.move(Step.REJECT)
        answer = {**status.info_object("error", code, description), **info}
        self.send_command(0, "_error", request.transaction, None, answer)
        self._events.append(StatusSent(0, "error", code, description))

    def accept_publish(
        self, request_id: int, description: str, *, public_name: str, sink: MediaSink | None = None
    ) -> None:
        """Queues onFCPublish (if the client called FCPublish), StreamBegin and NetStream.Publish.Start.

        `sink` is given the audio and video, unless an event that came before them still waits to be taken: then they
        are events too, so that nothing overtakes.
        """
        stream = self.move_stream(self.resolve_request(request_id, RequestKind.PUBLISH), StreamStep.ACCEPT)
        stream.public_name = public_name
        stream.sink = sink
        self.ignored_messages = 0
        self._admit(self.limits)  # For good: long messages may still be under way when a stream ends.
        if stream.name in self.fc_published_names:
            self.fc_published_names -= {stream.name}
            self.send_publish_notice("onFCPublish", status.PUBLISH_START, public_name)
        self.send_user_control(UserControl.STREAM_BEGIN, stream.stream_id)
        self.send_status(stream.stream_id, "status", status.PUBLISH_START, description)

    def reject_publish(self, request_id: int, code: str, description: str) -> None:
        """Queues the error status. The shell should then close the socket: librtmp overlooks some codes."""
        stream = self.move_stream(self.resolve_request(request_id, RequestKind.PUBLISH), StreamStep.REJECT)
        self.send_status(stream.stream_id, "error", code, description)

    def accept_play(self, request_id: int, description: str, *, recorded: bool = False) -> None:
        """Queues StreamIsRecorded (if so), StreamBegin, NetStream.Play.Reset (if asked for), NetStream.Play.Start and
        |RtmpSampleAccess.

        In this order: FFmpeg throws away what comes before Play.Start.
        """
        request, stream = self._accept_play(request_id)
        if recorded:
            self.send_user_control(UserControl.STREAM_IS_RECORDED, stream.stream_id)
        self.send_user_control(UserControl.STREAM_BEGIN, stream.stream_id)
        if request.reset:
            self.send_status(stream.stream_id, "status", status.PLAY_RESET, description)
        self.send_status(stream.stream_id, "status", status.PLAY_START, description)
        self.send_message(encode_data(stream.stream_id, 0, "|RtmpSampleAccess", True, True))

    def accept_switch(self, request_id: int, description: str) -> None:
        """A play2 to something else than what plays, which goes on until the shell has that. Queues Play.Transition."""
        _, stream = self._accept_play(request_id)
        reason = status.TRANSITION_SUCCESS
        self.send_status(stream.stream_id, "status", status.PLAY_TRANSITION, description, reason=reason)

    def _accept_play(self, request_id: int) -> tuple[Request, MessageStream]:
        request = self.resolve_request(request_id, RequestKind.PLAY)
        stream = self.move_stream(request, StreamStep.ACCEPT)
        stream.name = request.name
        return request, stream

    def reject_play(self, request_id: int, code: str, description: str) -> None:
        """Queues the error status. Of a playlist's further items it is onPlayStatus, as an error would end FFmpeg's
        playing: the message stream then still plays, and the shell goes on by `play_next_item`."""
        request = self.resolve_request(request_id, RequestKind.PLAY)
        stream = self.move_stream(request, StreamStep.SKIP if request.follows else StreamStep.REJECT)
        if request.follows:
            self.send_play_status(stream.stream_id, code, description=description)
        else:
            self.send_status(stream.stream_id, "error", code, description)

    # --- What awaits a decision ---

    def _must_defer(self, message: RawMessage, command: Command) -> bool:
        if not self._requests:
            return False
        stream = self._target_stream(message[2], command)
        if stream is None or stream.state not in REQUESTED_STATES:
            return False
        self.defer(stream, message)
        return True

    def _target_stream(self, stream_id: int, command: Command) -> MessageStream | None:
        """The message stream that a command is about; None: none."""
        name = command.name
        if name == "close":  # All of them; it ends none whose request is still to be decided.
            return next((stream for stream in self.streams.values() if stream.state in REQUESTED_STATES), None)
        if name in NAMING:
            return self.find_stream(stream_id, command.argument(0))
        return self.stream_of(stream_id) if name in NETSTREAM_COMMANDS else None

    # --- Media path ---

    def _one_media_stream(self) -> MessageStream | None:
        """The one that alone publishes."""
        if self._events or self._requests or self._decided or self.paused or self._deferred_error is not None:
            return None
        if self.phase is not CONNECTED:
            return None
        found = None
        for stream in self.streams.values():
            if stream.state is PUBLISHING:
                if found is not None or stream.sink is None:
                    return None
                found = stream
        return found

    def _on_audio(self, timestamp: int, stream_id: int, payload: bytes) -> None:
        stream = self.streams.get(stream_id)
        if stream is None or stream.state is not PUBLISHING:
            self._hold_or_ignore((AUDIO, timestamp, stream_id, payload))
        elif stream.sink is None or self._events:
            self._events.append(AudioReceived(stream_id, timestamp, payload))
        else:
            stream.sink.audio(timestamp, payload)

    def _on_video(self, timestamp: int, stream_id: int, payload: bytes) -> None:
        stream = self.streams.get(stream_id)
        if stream is None or stream.state is not PUBLISHING:
            self._hold_or_ignore((VIDEO, timestamp, stream_id, payload))
        elif stream.sink is None or self._events:
            self._events.append(VideoReceived(stream_id, timestamp, payload))
        else:
            stream.sink.video(timestamp, payload)

    def _on_data(self, timestamp: int, stream_id: int, payload: bytes, *, type_id: int = MessageType.DATA_AMF0) -> None:
        stream = self.streams.get(stream_id)
        if stream is not None and stream.state is StreamState.PUBLISHING:
            self._report_data(type_id, timestamp, stream_id, payload)
        else:
            self._hold_or_ignore((type_id, timestamp, stream_id, payload))

    def _hold_or_ignore(self, message: RawMessage) -> None:
        """Media for a stream that does not publish, as some are under way whenever a stream ends; or that may not yet:
        not all clients wait for the answer."""
        stream = self.streams.get(message[2])
        if stream is not None and stream.state is StreamState.PUBLISH_REQUESTED:
            self.defer(stream, message)
            return
        self.require_connected()
        self.ignored_messages += 1
        most = self.limits.ignored_messages
        # Encoders of several streams go on with one that was stopped here.
        if self.ignored_messages > most and not any(each.state is PUBLISHING for each in self.streams.values()):
            raise LimitExceeded(f"more than {most} messages on streams that aren't open")

    def _on_buffer_length(self, event: UserControl, values: tuple[Any, ...]) -> None:
        stream = self.streams.get(values[0])
        if stream is not None:
            stream.buffer_ms = values[1]
        self._events.append(BufferLengthSet(*values))

    def _on_early_command(self, command: Command) -> None:
        """Nothing is done, and the client is told why: it may still connect."""
        if command.name not in ANSWERS and (command.answered or command.name in ALWAYS_ANSWERED):
            self.send_error(command.transaction, status.CALL_FAILED, "This connection has to connect first.")

    def _on_user_control(self, timestamp: int, stream_id: int, payload: bytes) -> None:
        """A client that isn't connected yet gets no answers, and is told of none of its mistakes."""
        if self.phase is Phase.CONNECTED:
            on_user_control(self, timestamp, stream_id, payload)

    handlers = {
        **COMMON_HANDLERS,
        **CONTROL_HANDLERS,
        **COMPOUND_HANDLERS,
        MessageType.USER_CONTROL: _on_user_control,
        MessageType.AUDIO: _on_audio,
        MessageType.VIDEO: _on_video,
        MessageType.DATA_AMF0: _on_data,
        MessageType.DATA_AMF3: partial(_on_data, type_id=MessageType.DATA_AMF3),
    }
    user_control_handlers = {
        **PING_HANDLERS,
        UserControl.SET_BUFFER_LENGTH: _on_buffer_length,
        UserControl.SWF_VERIFY_RESPONSE: on_reported,
    }
    opening_commands = frozenset({"connect"})
    answers_calls = True
    commands = {**NETCONNECTION_COMMANDS, **NETSTREAM_COMMANDS, **RESULT_HANDLERS}
