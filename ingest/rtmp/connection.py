"""What both ends of a connection do alike: bytes in, events out, bytes to send out.

There is no socket, clock or randomness here. The shell gives bytes to `receive_data`, acts on the events, and writes
what `data_to_send` gives. While `paused` is set the connection waits for a decision: it keeps what it is given, and
`events` goes on with it once the decision was made.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from ingest.rtmp.chunks import CSID_AUDIO, CSID_COMMAND, CSID_CONTROL, CSID_DATA, CSID_STATUS, CSID_VIDEO
from ingest.rtmp.chunks.reader import COMMANDS, ChunkReader
from ingest.rtmp.chunks.writer import ChunkWriter
from ingest.rtmp.errors import LimitExceeded, LocalProtocolError, RemoteProtocolError
from ingest.rtmp.events import (
    AcknowledgementReceived,
    CallReceived,
    DataReceived,
    Event,
    HandshakeCompleted,
    PingAnswered,
    UnknownMessage,
)
from ingest.rtmp.handshake import HANDSHAKE_BYTES, ClientHandshake, ServerHandshake
from ingest.rtmp.limits import Limits
from ingest.rtmp.messages import control, user_control
from ingest.rtmp.messages.commands import Command, decode_command, encode_command
from ingest.rtmp.messages.data import decode_data
from ingest.rtmp.messages.message import Message, MessageType
from ingest.rtmp.messages.user_control import UserControl
from ingest.rtmp.states import PHASES, Phase, Step
from ingest.rtmp.status import CALL_FAILED, level_of

Handler = Callable[[Any, int, int, bytes], None]
"""Of the connection; takes timestamp, message stream id and payload."""

CHUNK_STREAMS: Final[dict[int, int]] = {
    MessageType.AUDIO: CSID_AUDIO,
    MessageType.VIDEO: CSID_VIDEO,
    MessageType.DATA_AMF0: CSID_DATA,
    MessageType.DATA_AMF3: CSID_DATA,
    MessageType.COMMAND_AMF0: CSID_COMMAND,
    MessageType.COMMAND_AMF3: CSID_COMMAND,
}
"""Where messages go out by their type; all others on the control stream."""

AUDIO: Final = int(MessageType.AUDIO)
VIDEO: Final = int(MessageType.VIDEO)
"""As plain numbers, which compare faster."""
CLOSED: Final = Phase.CLOSED
"""Here, as each look into an enumeration costs as much as a call."""

BYTES_PER_UNIT: Final = 64
"""So many bytes count as one message more, as each may be an AMF value: see `Limits.messages_per_read`."""

ANSWERS: Final = frozenset({"_result", "_error", "onStatus"})
"""Commands that are never answered, lest two ends answer one another for ever."""


def info_object(level: str, code: str, description: str) -> dict[str, Any]:
    """What onStatus and the answer to connect tell (section 7.2.2)."""
    return {"level": level, "code": code, "description": description}


class Connection:
    """The common base of ServerConnection and ClientConnection."""

    handlers: ClassVar[Mapping[int, Handler]]
    """By message type. Functions, not bound methods: a connection must not refer to itself."""

    commands: ClassVar[Mapping[str, Callable[[Any, int, Command], None]]]
    """By name; each takes the connection, the message stream id and the command."""

    opening_commands: ClassVar[frozenset[str]]
    """The only ones before the connection is accepted."""

    user_control_handlers: ClassVar[Mapping[int, Callable[[Any, bytes], None]]]
    """By event."""

    def __init__(
        self, limits: Limits, handshake: ServerHandshake | ClientHandshake, *, window: int, compress: bool
    ) -> None:
        self.phase = Phase.HANDSHAKE
        self.paused = False
        """A decision is awaited."""
        self.bytes_received = 0
        """All bytes, with those of the handshake."""
        self.ignored_messages = 0
        """Media and data messages that came for no open stream, since the latest publish was accepted."""
        self._limits = limits
        self._handshake = handshake
        self._reader = ChunkReader(limits)
        self._writer = ChunkWriter(compress=compress)
        self._out: list[bytes] = []
        self._events: list[Event] = []
        self._left = 0
        """What is left of `Limits.messages_per_read`."""
        self._acknowledged = HANDSHAKE_BYTES
        """`bytes_received` at the last acknowledgement."""
        self._window = window
        """An acknowledgement is due each time that so many bytes were received."""
        self._window_sent = 0
        """The last Window Acknowledgement Size that we sent."""

    # --- The shell's side ---

    def receive_data(self, data: bytes | bytearray | memoryview) -> list[Event]:
        """What follows from bytes of the peer. They may be a view on a buffer that is used again afterwards.

        Raises RemoteProtocolError; the connection is closed then. A closed connection drops all that it is given.
        """
        self.bytes_received += len(data)
        if self.paused:
            self._reader.hold(data)
            return self._take_events()
        return self._process(data)

    def events(self) -> list[Event]:
        """What our own calls caused, and after a decision what follows from the bytes that waited for it."""
        return self._take_events() if self.paused else self._process(b"")

    @property
    def has_output(self) -> bool:
        """Whether `data_to_send` has something to give."""
        return bool(self._out)

    def data_to_send(self) -> bytes:
        """All that waits to be sent; it is forgotten here."""
        out = self._out
        if not out:
            return b""
        self._out = []
        return out[0] if len(out) == 1 else b"".join(out)

    def send_message(self, message: Message) -> None:
        self._queue(message, CHUNK_STREAMS.get(message.type_id, CSID_CONTROL))

    def send_user_control(self, event: UserControl, *numbers: int) -> None:
        self._queue(user_control.user_control(event, *numbers), CSID_CONTROL)

    def send_ping(self, timestamp: int) -> None:
        """PingRequest: the peer sends `timestamp` back (PingAnswered). OBS never does."""
        self.send_user_control(UserControl.PING_REQUEST, timestamp)

    def send_chunk_size(self, size: int) -> None:
        """Set Chunk Size, effective for all that is sent after it. OBS misses it once it publishes."""
        self._queue(control.set_chunk_size(size), CSID_CONTROL)
        self._writer.chunk_size = size

    def send_window(self, size: int) -> None:
        """Window Acknowledgement Size: the peer is to acknowledge each `size` bytes."""
        self._queue(control.window_acknowledgement_size(size), CSID_CONTROL)
        self._window_sent = size

    # --- Bytes to messages ---

    def _process(self, data: bytes | bytearray | memoryview) -> list[Event]:
        if self.phase is CLOSED:
            return self._take_events()
        self._left = self._limits.messages_per_read
        try:
            if not self._handshake.completed:
                data = self._shake_hands(data)
            self._reader.feed(data)
            try:
                self._read_messages()
            finally:
                self._reader.keep()
        except RemoteProtocolError:
            self._move(Step.CLOSE)
            raise
        if self.bytes_received - self._acknowledged >= self._window:
            self._acknowledged = self.bytes_received
            self._queue(control.acknowledgement(self.bytes_received - HANDSHAKE_BYTES), CSID_CONTROL)
        return self._take_events()

    def _take_events(self) -> list[Event]:
        events = self._events
        self._events = []
        return events

    def _shake_hands(self, data: bytes | bytearray | memoryview) -> bytes:
        answer, rest = self._handshake.receive(data)
        if answer:
            self._out.append(answer)
        if self._handshake.completed:
            self._move(Step.SHAKE_HANDS)
            self._events.append(HandshakeCompleted(self._handshake.version))
        return rest

    def _read_messages(self) -> None:
        handlers = self.handlers
        read = self._reader.read
        while not self.paused and self.phase is not CLOSED:
            messages = read()
            if not messages:
                return
            for type_id, timestamp, stream_id, payload in messages:
                if type_id != VIDEO and type_id != AUDIO:
                    self._charge(payload)
                handler = handlers.get(type_id)
                if handler is None:
                    self._on_unknown(type_id, stream_id, payload)
                else:
                    handler(self, timestamp, stream_id, payload)
            if messages[-1][0] not in COMMANDS:
                return  # All that there was: only commands stop the reader early.

    def _charge(self, payload: bytes) -> None:
        """Count a message that costs more than audio or video of its size."""
        limits = self._limits
        self._left -= 1 + min(len(payload), limits.amf_elements) // BYTES_PER_UNIT
        if self._left < 0:
            raise LimitExceeded(f"more than {limits.messages_per_read} messages at once")

    def _queue(self, message: Message, chunk_stream_id: int) -> None:
        self._out.append(self._writer.encode(message, chunk_stream_id))

    def _move(self, step: Step) -> None:
        phase = PHASES.get((self.phase, step))
        if phase is None:
            raise LocalProtocolError(f"{step.name} is not possible in phase {self.phase.name}")
        self.phase = phase

    # --- Protocol control and user control (sections 5.4, 6.2 and 7.1.7) ---

    def _on_acknowledgement(self, timestamp: int, stream_id: int, payload: bytes) -> None:
        self._events.append(AcknowledgementReceived(control.read_number(payload)))

    def _on_window(self, timestamp: int, stream_id: int, payload: bytes) -> None:
        # A window of 0 would ask for endless acknowledgements; ours stays in force.
        self._window = control.read_number(payload) or self._window

    def _on_peer_bandwidth(self, timestamp: int, stream_id: int, payload: bytes) -> None:
        """The answer is a Window Acknowledgement Size of the same size, unless the peer has it already (5.4.5)."""
        size = control.read_number(payload)
        if size not in (0, self._window_sent):
            self.send_window(size)

    def _on_user_control(self, timestamp: int, stream_id: int, payload: bytes) -> None:
        handler = self.user_control_handlers.get(user_control.read_event(payload))
        if handler is None:
            self._events.append(UnknownMessage(MessageType.USER_CONTROL, stream_id, payload))
        else:
            handler(self, payload)

    def _on_ping_request(self, payload: bytes) -> None:
        self.send_user_control(UserControl.PING_RESPONSE, user_control.read_number(payload))

    def _on_ping_response(self, payload: bytes) -> None:
        self._events.append(PingAnswered(user_control.read_number(payload)))

    def _on_unknown(self, type_id: int, stream_id: int, payload: bytes) -> None:
        self._require_connected()
        self._events.append(UnknownMessage(type_id, stream_id, payload))

    def _require_connected(self) -> None:
        if self.phase is not Phase.CONNECTED:
            raise RemoteProtocolError("a message before connect was accepted")

    def _ignore(self) -> None:
        """A media or data message for no open stream: some are under way whenever a stream ends."""
        self._require_connected()
        self.ignored_messages += 1
        if not self._may_ignore():
            raise LimitExceeded(f"more than {self._limits.ignored_messages} messages on streams that aren't open")

    def _may_ignore(self) -> bool:
        return self.ignored_messages <= self._limits.ignored_messages

    def _report_data(self, timestamp: int, stream_id: int, payload: bytes) -> None:
        """Data that can't be read are reported as unknown: they are no reason to end a live stream."""
        try:
            data = decode_data(payload, self._limits)
        except LimitExceeded:
            raise
        except RemoteProtocolError:
            self._events.append(UnknownMessage(MessageType.DATA_AMF0, stream_id, payload))
        else:
            self._events.append(DataReceived(stream_id, timestamp, data.name, data.values, data.payload))

    # --- Commands (section 7.2) ---

    def _on_command(self, timestamp: int, stream_id: int, payload: bytes) -> None:
        command = decode_command(payload, self._limits)
        if self.phase is not Phase.CONNECTED and command.name not in self.opening_commands:
            raise RemoteProtocolError("a command before connect was accepted")
        handler = self.commands.get(command.name)
        if handler is None:
            self._on_call(stream_id, command)
        else:
            handler(self, stream_id, command)

    def _on_call(self, stream_id: int, command: Command) -> None:
        """A procedure that nobody has: the caller is told so, if it wants an answer."""
        self._events.append(
            CallReceived(stream_id, command.name, command.transaction, command.command_object, command.arguments)
        )
        if command.answered and command.name not in ANSWERS:
            answer = info_object(level_of(CALL_FAILED), CALL_FAILED, "There is no such procedure.")
            self._send_command(0, "_error", command.transaction, None, answer)

    def _send_command(
        self, stream_id: int, name: str, transaction: float, command_object: Any, *arguments: Any
    ) -> None:
        command = Command(name, transaction, command_object, list(arguments))
        chunk_stream_id = CSID_STATUS if name == "onStatus" else CSID_COMMAND
        self._queue(encode_command(command, stream_id), chunk_stream_id)


COMMON_HANDLERS: Final[dict[int, Handler]] = {
    MessageType.ACKNOWLEDGEMENT: Connection._on_acknowledgement,
    MessageType.USER_CONTROL: Connection._on_user_control,
    MessageType.WINDOW_ACKNOWLEDGEMENT_SIZE: Connection._on_window,
    MessageType.SET_PEER_BANDWIDTH: Connection._on_peer_bandwidth,
    MessageType.COMMAND_AMF0: Connection._on_command,
    MessageType.COMMAND_AMF3: Connection._on_command,
}
"""Set Chunk Size and Abort are the chunk reader's."""

COMMON_USER_CONTROL: Final[dict[int, Callable[[Any, bytes], None]]] = {
    UserControl.PING_REQUEST: Connection._on_ping_request,
    UserControl.PING_RESPONSE: Connection._on_ping_response,
}
