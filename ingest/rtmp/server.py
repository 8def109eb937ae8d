"""The server's end of a connection.

`connect`, `publish` and `play` pause the connection until `accept_*` or `reject_*` is called. Everything else that a
client may ask is answered here. Names that clients publish or play under may be stream keys: no answer repeats them.
"""

from math import isfinite
from typing import Any, Final

from ingest.rtmp import status
from ingest.rtmp.amf0 import UNDEFINED
from ingest.rtmp.chunks import CSID_CONTROL
from ingest.rtmp.connection import COMMON_HANDLERS, COMMON_USER_CONTROL, Connection, info_object
from ingest.rtmp.errors import LimitExceeded, LocalProtocolError, RemoteProtocolError
from ingest.rtmp.events import (
    AudioReceived,
    BufferLengthSet,
    ConnectRequested,
    PlayRequested,
    PlayStopped,
    PublishRequested,
    PublishStopped,
    StatusSent,
    StreamCreated,
    StreamDeleted,
    VideoReceived,
)
from ingest.rtmp.handshake import ServerHandshake
from ingest.rtmp.limits import DEFAULT_LIMITS, Limits, unadmitted
from ingest.rtmp.messages import control, user_control
from ingest.rtmp.messages.commands import Command
from ingest.rtmp.messages.data import encode_data
from ingest.rtmp.messages.message import MessageType
from ingest.rtmp.messages.user_control import UserControl
from ingest.rtmp.states import Phase, Step, StreamState, StreamStep
from ingest.rtmp.status import level_of
from ingest.rtmp.streams import Asked, MediaSink, MessageStream, Request

CONNECT_PROPERTIES: Final = {"fmsVer": "FMS/3,5,7,7009", "capabilities": 31.0, "mode": 1.0}
"""What clients look for to know what kind of server this is."""

PUBLISH_TYPES: Final = frozenset({"live", "record", "append"})
PUBLISHING: Final = StreamState.PUBLISHING
ANY_START: Final = -2.0
"""`play` with no start: live, else recorded, else wait (section 7.2.2.1)."""
WHOLE: Final = -1.0
"""`play` with no duration."""


class ServerConnection(Connection):
    """See the package's docstring for how a shell drives it."""

    def __init__(
        self,
        limits: Limits = DEFAULT_LIMITS,
        *,
        nonce: bytes,
        epoch_ms: int = 0,
        chunk_size: int = 60_000,
        window: int = 2_500_000,
    ) -> None:
        """`nonce`: 1528 random bytes for S1; `window`: bytes between acknowledgements, in both directions."""
        super().__init__(limits, ServerHandshake(nonce, epoch_ms), window=window, compress=False)
        self._reader.set_limits(unadmitted(limits))
        self.object_encoding = 0
        """0 for AMF0 or 3 for AMF3, as asked for by `connect`."""
        self._chunk_size = chunk_size
        self._own_window = window
        self._request: Request | None = None
        self._last_request_id = 0
        self._streams: dict[int, MessageStream] = {}
        self._last_stream_id = 0
        self._announced: set[str] = set()
        """Names of FCPublish, which await onFCPublish."""

    # --- Decisions ---

    def accept_connect(
        self, request_id: int, *, properties: dict[str, Any] | None = None, info: dict[str, Any] | None = None
    ) -> None:
        """Queues Window Acknowledgement Size, Set Peer Bandwidth, Set Chunk Size and the result.

        Set Chunk Size comes before the result, and never again: OBS overlooks a later one. `properties` and `info` are
        added to the two objects of the result.
        """
        request = self._decide(request_id, Asked.CONNECT)
        self._move(Step.ACCEPT)
        self.send_window(self._own_window)
        self._queue(control.set_peer_bandwidth(self._own_window, control.BandwidthLimit.DYNAMIC), CSID_CONTROL)
        self.send_chunk_size(self._chunk_size)
        description = "Connection succeeded."
        answer: dict[str, Any] = {
            **info_object("status", status.CONNECT_SUCCESS, description),
            "objectEncoding": self.object_encoding,
            **(info or {}),
        }
        self._send_command(
            0, "_result", request.command.transaction, {**CONNECT_PROPERTIES, **(properties or {})}, answer
        )
        self._events.append(StatusSent(0, "status", status.CONNECT_SUCCESS, description))

    def reject_connect(self, request_id: int, code: str, description: str, **info: Any) -> None:
        """Queues `_error`. The shell then closes the socket, as some clients would wait for ever."""
        request = self._decide(request_id, Asked.CONNECT)
        self._move(Step.REJECT)
        answer = {**info_object("error", code, description), **info}
        self._send_command(0, "_error", request.command.transaction, None, answer)
        self._events.append(StatusSent(0, "error", code, description))

    def accept_publish(
        self, request_id: int, description: str, *, public_name: str, sink: MediaSink | None = None
    ) -> None:
        """Queues onFCPublish (if the client called FCPublish), StreamBegin and NetStream.Publish.Start.

        `sink` is given the audio and video, unless an event that came before them still waits to be taken: then they
        are events too, so that nothing overtakes.
        """
        stream = self._move_stream(self._decide(request_id, Asked.PUBLISH), StreamStep.ACCEPT)
        stream.public_name = public_name
        stream.sink = sink
        self.ignored_messages = 0
        self._reader.set_limits(self._limits)  # For good: long messages may still be under way when a stream ends.
        if stream.name in self._announced:
            self._announced.discard(stream.name)
            self._send_publish_notice("onFCPublish", status.PUBLISH_START, public_name)
        self.send_user_control(UserControl.STREAM_BEGIN, stream.stream_id)
        self.send_status(stream.stream_id, "status", status.PUBLISH_START, description)

    def reject_publish(self, request_id: int, code: str, description: str) -> None:
        """Queues the error status. The shell should then close the socket: librtmp overlooks some codes."""
        stream = self._move_stream(self._decide(request_id, Asked.PUBLISH), StreamStep.REJECT)
        self.send_status(stream.stream_id, "error", code, description)

    def accept_play(self, request_id: int, description: str) -> None:
        """Queues StreamBegin, NetStream.Play.Reset (if asked for), NetStream.Play.Start and |RtmpSampleAccess.

        In this order: FFmpeg throws away what comes before Play.Start.
        """
        request = self._decide(request_id, Asked.PLAY)
        stream = self._move_stream(request, StreamStep.ACCEPT)
        self.send_user_control(UserControl.STREAM_BEGIN, stream.stream_id)
        if request.reset:
            self.send_status(stream.stream_id, "status", status.PLAY_RESET, description)
        self.send_status(stream.stream_id, "status", status.PLAY_START, description)
        self.send_message(encode_data(stream.stream_id, 0, "|RtmpSampleAccess", True, True))

    def reject_play(self, request_id: int, code: str, description: str) -> None:
        stream = self._move_stream(self._decide(request_id, Asked.PLAY), StreamStep.REJECT)
        self.send_status(stream.stream_id, "error", code, description)

    # --- At any time ---

    def send_status(self, stream_id: int, level: str, code: str, description: str, **info: Any) -> None:
        """Queues onStatus on the message stream, as GStreamer needs it, and reports StatusSent by `events`."""
        self._send_command(stream_id, "onStatus", 0, None, {**info_object(level, code, description), **info})
        self._events.append(StatusSent(stream_id, level, code, description))

    def stop_stream(self, stream_id: int) -> None:
        """Ends publishing or playing on our side. Media that still comes is ignored; nothing is sent or reported."""
        stream = self._streams.get(stream_id)
        if stream is None or not stream.move(StreamStep.STOP):
            raise LocalProtocolError("the message stream can't be stopped now")

    # --- Requests and their decisions ---

    def _ask(self, kind: Asked, command: Command, stream: MessageStream | None = None, *, reset: bool = False) -> int:
        self._last_request_id += 1
        self._request = Request(self._last_request_id, kind, command, stream, reset)
        self.paused = True
        return self._last_request_id

    def _decide(self, request_id: int, kind: Asked) -> Request:
        request = self._request
        if request is None or request.request_id != request_id or request.kind is not kind:
            raise LocalProtocolError(f"no {kind.name.lower()} request {request_id} awaits a decision")
        self._request = None
        self.paused = False
        return request

    def _move_stream(self, request: Request, step: StreamStep) -> MessageStream:
        stream = request.stream
        if stream is None or not stream.move(step):
            raise LocalProtocolError("the message stream awaits no decision")
        return stream

    # --- Media path ---

    def _may_ignore(self) -> bool:
        """While another stream publishes: encoders of several go on with one that was stopped here."""
        return any(stream.state is StreamState.PUBLISHING for stream in self._streams.values()) or super()._may_ignore()

    def _on_audio(self, timestamp: int, stream_id: int, payload: bytes) -> None:
        stream = self._streams.get(stream_id)
        if stream is None or stream.state is not PUBLISHING:
            self._ignore()
        elif stream.sink is None or self._events:
            self._events.append(AudioReceived(stream_id, timestamp, payload))
        else:
            stream.sink.audio(timestamp, payload)

    def _on_video(self, timestamp: int, stream_id: int, payload: bytes) -> None:
        stream = self._streams.get(stream_id)
        if stream is None or stream.state is not PUBLISHING:
            self._ignore()
        elif stream.sink is None or self._events:
            self._events.append(VideoReceived(stream_id, timestamp, payload))
        else:
            stream.sink.video(timestamp, payload)

    def _on_data(self, timestamp: int, stream_id: int, payload: bytes) -> None:
        stream = self._streams.get(stream_id)
        if stream is not None and stream.state is StreamState.PUBLISHING:
            self._report_data(timestamp, stream_id, payload)
        else:
            self._ignore()

    def _on_buffer_length(self, payload: bytes) -> None:
        self._events.append(BufferLengthSet(user_control.read_number(payload), user_control.read_number(payload, 1)))

    def _on_user_control(self, timestamp: int, stream_id: int, payload: bytes) -> None:
        """A client that isn't connected yet gets no answers, and is told of none of its mistakes."""
        if self.phase is Phase.CONNECTED:
            super()._on_user_control(timestamp, stream_id, payload)

    # --- NetConnection commands (section 7.2.1) ---

    def _on_connect(self, stream_id: int, command: Command) -> None:
        if self.phase is not Phase.CONNECTING:
            raise RemoteProtocolError("a second connect")
        self._move(Step.ASK)
        properties = command.command_object if isinstance(command.command_object, dict) else {}
        self.object_encoding = 3 if properties.get("objectEncoding") == 3 else 0
        self._events.append(
            ConnectRequested(
                self._ask(Asked.CONNECT, command),
                _text(properties.get("app")),
                _text(properties.get("tcUrl")),
                _text(properties.get("flashVer")),
                self.object_encoding,
                properties,
                command.arguments,
            )
        )

    def _on_create_stream(self, stream_id: int, command: Command) -> None:
        if len(self._streams) >= self._limits.message_streams:
            raise LimitExceeded(f"more than {self._limits.message_streams} message streams")
        self._last_stream_id += 1
        self._streams[self._last_stream_id] = MessageStream(self._last_stream_id)
        # Answered whatever the transaction id: the client can't know the stream's id otherwise.
        self._send_command(0, "_result", command.transaction, None, float(self._last_stream_id))
        self._events.append(StreamCreated(self._last_stream_id))

    def _on_noted(self, stream_id: int, command: Command) -> None:
        """releaseStream, _checkbw, FCSubscribe: nothing to do, and Haivision's encoders wait for the answer."""
        self._send_result(command, UNDEFINED)

    def _on_stream_length(self, stream_id: int, command: Command) -> None:
        """getStreamLength: seconds; 0 for what is live."""
        self._send_result(command, 0.0)

    def _on_fc_publish(self, stream_id: int, command: Command) -> None:
        """Comes before publish, from some encoders after it. onFCPublish, which FMLE shows, waits for the decision."""
        self._send_result(command, UNDEFINED)
        name = _text(command.argument(0))
        for stream in self._streams.values():
            if stream.state is StreamState.PUBLISHING and stream.name == name:
                self._send_publish_notice("onFCPublish", status.PUBLISH_START, stream.public_name)
                return
        if len(self._announced) < self._limits.message_streams:
            self._announced.add(name)

    def _on_fc_unpublish(self, stream_id: int, command: Command) -> None:
        stream = self._find_stream(stream_id, command.argument(0), StreamState.PUBLISHING)
        if stream is not None:
            self._send_publish_notice("onFCUnpublish", status.UNPUBLISH_SUCCESS, stream.public_name)
        self._send_result(command, UNDEFINED)
        if stream is not None:
            self._stop(stream, command.name)

    # --- NetStream commands (section 7.2.2) ---

    def _on_publish(self, stream_id: int, command: Command) -> None:
        stream = self._stream_of(stream_id)
        name = command.argument(0)
        if stream is not None and name is False:
            self._stop(stream, command.name)
        elif stream is None or not isinstance(name, str) or not stream.move(StreamStep.PUBLISH):
            self.send_status(stream_id, "error", status.PUBLISH_FAILED, "This stream can't publish now.")
        else:
            stream.name = name
            publish_type = _text(command.argument(1)).lower()
            self._events.append(
                PublishRequested(
                    self._ask(Asked.PUBLISH, command, stream),
                    stream.stream_id,
                    name,
                    publish_type if publish_type in PUBLISH_TYPES else "live",
                )
            )

    def _on_play(self, stream_id: int, command: Command) -> None:
        stream = self._stream_of(stream_id)
        name = command.argument(0)
        if stream is not None and stream.state is StreamState.PLAYING:
            # A new play replaces the old one, and play(false) just ends it.
            self._stop(stream, command.name)
        if stream is not None and name is False:
            return
        if stream is None or not isinstance(name, str) or not stream.move(StreamStep.PLAY):
            self.send_status(stream_id, "error", status.PLAY_FAILED, "This stream can't play now.")
            return
        stream.name = name
        start = _number(command.argument(1), ANY_START)
        if start <= -1000:
            # FFmpeg and librtmp give the special values -1 and -2 in thousandths.
            start /= 1000
        reset = command.argument(3) not in (None, UNDEFINED, False, 0.0)
        self._events.append(
            PlayRequested(
                self._ask(Asked.PLAY, command, stream, reset=reset),
                stream.stream_id,
                name,
                start,
                _number(command.argument(2), WHOLE),
                reset,
            )
        )

    def _on_close_stream(self, stream_id: int, command: Command) -> None:
        stream = self._find_stream(stream_id, command.argument(0))
        if stream is not None:
            if stream.state is StreamState.PLAYING:
                self.send_status(stream.stream_id, "status", status.PLAY_STOP, "Playing stopped.")
            self._stop(stream, command.name)

    def _on_delete_stream(self, stream_id: int, command: Command) -> None:
        """The argument is the stream's id, or from GStreamer its name. There is no answer (section 7.2.2.3)."""
        stream = self._find_stream(stream_id, command.argument(0))
        if stream is not None:
            self._stop(stream, command.name)
            del self._streams[stream.stream_id]
            self._events.append(StreamDeleted(stream.stream_id))

    def _stop(self, stream: MessageStream, command_name: str) -> None:
        """The client ends what the stream does."""
        state = stream.state
        stream.move(StreamStep.STOP)
        if state is StreamState.PUBLISHING:
            # The status first: it belongs to the session that the event ends.
            self.send_status(stream.stream_id, "status", status.UNPUBLISH_SUCCESS, "Publishing stopped.")
            self._events.append(PublishStopped(stream.stream_id, command_name))
        elif state is StreamState.PLAYING:
            self._events.append(PlayStopped(stream.stream_id, command_name))

    def _stream_of(self, stream_id: int) -> MessageStream | None:
        """The message stream; a command on the connection itself means the only one, if there is only one."""
        stream = self._streams.get(stream_id)
        if stream is None and stream_id == 0 and len(self._streams) == 1:
            return next(iter(self._streams.values()))
        return stream

    def _find_stream(self, stream_id: int, key: Any, state: StreamState | None = None) -> MessageStream | None:
        """The stream that a command means by an id or name, else by the message stream that it came on."""
        if isinstance(key, float):
            found = self._streams.get(int(key)) if isfinite(key) else None
        else:
            by_name = (stream for stream in self._streams.values() if key and stream.name == key)
            found = next(by_name, None) or self._stream_of(stream_id)
        return found if found is not None and state in (None, found.state) else None

    # --- Answers ---

    def _send_result(self, command: Command, *values: Any) -> None:
        if command.answered:
            self._send_command(0, "_result", command.transaction, None, *values)

    def _send_publish_notice(self, name: str, code: str, public_name: str) -> None:
        """onFCPublish and onFCUnpublish, which Flash Media Server's clients know."""
        self._send_command(0, name, 0, None, info_object(level_of(code), code, public_name))

    handlers = {
        **COMMON_HANDLERS,
        MessageType.USER_CONTROL: _on_user_control,
        MessageType.AUDIO: _on_audio,
        MessageType.VIDEO: _on_video,
        MessageType.DATA_AMF0: _on_data,
        MessageType.DATA_AMF3: _on_data,
    }
    user_control_handlers = {**COMMON_USER_CONTROL, UserControl.SET_BUFFER_LENGTH: _on_buffer_length}
    opening_commands = frozenset({"connect"})
    commands = {
        "connect": _on_connect,
        "createStream": _on_create_stream,
        "releaseStream": _on_noted,
        "_checkbw": _on_noted,
        "FCSubscribe": _on_noted,
        "getStreamLength": _on_stream_length,
        "FCPublish": _on_fc_publish,
        "FCUnpublish": _on_fc_unpublish,
        "publish": _on_publish,
        "play": _on_play,
        "closeStream": _on_close_stream,
        "deleteStream": _on_delete_stream,
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any, default: float) -> float:
    return value if isinstance(value, float) and isfinite(value) else default
