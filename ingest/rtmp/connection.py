"""What both ends of a connection do alike: bytes in, events out, bytes to send out.

There is no socket, clock or randomness here. The shell gives bytes to `receive_data`, acts on the events, and writes
what `data_to_send` gives. Reading stops behind each request, so that a decision that is made at once comes before what
follows; `events` goes on. While `paused` is set the connection waits for a decision: it keeps what it is given, and
`events` goes on with it once the decision was made.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, Final, TypeVar

from ingest.rtmp.calls import ANSWERS, NAME_TOO_LONG, NO_PROCEDURE, TOO_MANY, Calls
from ingest.rtmp.chunk_writer import CHUNK_STREAMS, CSID_COMMAND, CSID_CONTROL, CSID_STATUS, ChunkWriter
from ingest.rtmp.errors import LimitExceeded, LocalProtocolError, RemoteProtocolError
from ingest.rtmp.events import CallReceived, DataReceived, Event, HandshakeCompleted, ReadingStopped, UnknownMessage
from ingest.rtmp.flow import AcknowledgementCounter, SendingWindow
from ingest.rtmp.handshake import HANDSHAKE_BYTES, ClientHandshake, ServerHandshake
from ingest.rtmp.limits import Limits
from ingest.rtmp.messages import AGGREGATE, AUDIO, VIDEO, Message, MessageType, RawMessage, control
from ingest.rtmp.messages.commands import Command, decode_command, decode_data, encode_command
from ingest.rtmp.messages.control import UserControl
from ingest.rtmp.run_reader import MediaStream, RunReader
from ingest.rtmp.states import PHASES, Phase, Step
from ingest.rtmp.status import CALL_FAILED, info_object, level_of

Content = TypeVar("Content")

Handler = Callable[[Any, int, int, bytes], None]
"""Of the connection; takes timestamp, message stream id and payload."""
UserControlHandler = Callable[[Any, UserControl, tuple[Any, ...]], None]
"""Takes the connection, the event and its values."""

CLOSED: Final = Phase.CLOSED
"""Here, as each look into an enumeration costs as much as a call."""

DATA: Final = frozenset({MessageType.DATA_AMF0, MessageType.DATA_AMF3})
"""What, like audio and video, comes as often as the publisher's media ask for."""

MEDIA_PER_MESSAGE: Final = 16
"""So many audio and video messages count as one of `Limits.messages_per_read`, where they come in aggregates."""

BYTES_PER_UNIT: Final = 64
"""So many bytes count as one message more, as each may be an AMF value: see `Limits.messages_per_read`."""


class Connection:
    __slots__ = (
        "_control_messages",
        "_events",
        "_handshake",
        "_has_requested",
        "_output",
        "_reader",
        "_writer",
        "acknowledging",
        "amf3",
        "bytes_received",
        "calls",
        "left",
        "limits",
        "media_messages",
        "paused",
        "phase",
        "window",
    )

    handlers: ClassVar[Mapping[int, Handler]]
    """By message type. Functions, not bound methods: a connection must not refer to itself."""

    commands: ClassVar[Mapping[str, Callable[[Any, int, Command], None]]]
    """By name; each takes the connection, the message stream id and the command."""

    opening_commands: ClassVar[frozenset[str]]
    """The only ones before the connection is accepted."""

    answers_calls = False
    """Whether the shell answers CallReceived, by `answer_call` or `fail_call`. Else each is refused at once."""

    user_control_handlers: ClassVar[Mapping[int, UserControlHandler]]

    def __init__(
        self, limits: Limits, handshake: ServerHandshake | ClientHandshake, *, window_bytes: int, compress: bool
    ) -> None:
        self.phase = Phase.HANDSHAKE
        self.paused = False
        """A decision is awaited before anything more is read."""
        self._has_requested = False
        self.bytes_received = 0
        """All bytes, with those of the handshake."""
        self.media_messages = 0
        """All that `Limits.media_messages_per_s` is about, so far."""
        self._control_messages = 0
        """But for those that the chunk reader keeps to itself."""
        self.amf3 = False
        """Whether object encoding 3 was agreed on: what has values goes out as types 15, 16 and 17."""
        self.limits = limits
        self._handshake = handshake
        self._reader = RunReader(limits)
        self._writer = ChunkWriter(compress=compress)
        self._output: list[bytes] = []
        self._events: list[Event] = []
        self.calls = Calls(limits)
        self.left = 0
        """Of `Limits.messages_per_read`."""
        self.acknowledging = AcknowledgementCounter(window_bytes)
        self.window = SendingWindow()
        """What the shell sends beside `data_to_send` it adds to `window.sent`; while `window.may_send` says no it keeps
        back audio, video and data."""

    # --- The shell's side ---

    def receive_data(self, data: bytes | bytearray | memoryview) -> list[Event]:
        """What follows from bytes of the peer. They may be a view on a buffer that is used again afterwards.

        Raises RemoteProtocolError; the connection is closed then. A closed connection drops all that it is given.
        """
        self.bytes_received += len(data)
        if self.paused:
            self._reader.hold(data)
            return self.take_events()
        return self._process(data)

    def events(self) -> list[Event]:
        """What our own calls caused, and what follows from bytes that waited: behind a request, or for a decision."""
        return self.take_events() if self.paused else self._process(b"")

    def take_events(self) -> list[Event]:
        events = self._events
        self._events = []
        return events

    @property
    def has_more_events(self) -> bool:
        """Whether reading has stopped behind a request that need not be waited for: `events` goes on."""
        return self._has_requested and not self.paused

    @property
    def control_messages(self) -> int:
        """All that `Limits.control_messages_per_s` is about, so far."""
        return self._control_messages + self._reader.control_messages

    @property
    def small_chunks(self) -> int:
        """All that `Limits.small_chunks_per_s` is about, so far."""
        return self._reader.small_chunks

    @property
    def has_output(self) -> bool:
        return bool(self._output)

    def data_to_send(self) -> bytes:
        """What waits to be sent; it is forgotten here."""
        data = b"".join(self._output)
        self._output.clear()
        self.window.sent += len(data)
        return data

    def send_message(self, message: Message) -> None:
        self._queue(message, CHUNK_STREAMS.get(message.type_id, CSID_CONTROL))

    def send_user_control(self, event: UserControl, *values: int | bytes) -> None:
        self._queue(control.user_control(event, *values), CSID_CONTROL)

    def send_ping(self, timestamp: int) -> None:
        """PingRequest: the peer sends `timestamp` back (PingAnswered). OBS never does."""
        self.send_user_control(UserControl.PING_REQUEST, timestamp)

    def send_chunk_size(self, size: int) -> None:
        """Set Chunk Size, effective for all that is sent after it. OBS misses it once it publishes."""
        self._queue(control.set_chunk_size(size), CSID_CONTROL)

    def send_window(self, size: int) -> None:
        """Window Acknowledgement Size: the peer is to acknowledge each `size` bytes."""
        self._queue(control.window_acknowledgement_size(size), CSID_CONTROL)
        self.window.announce(size, sum(map(len, self._output)))

    # --- Bytes to messages ---

    def _process(self, data: bytes | bytearray | memoryview) -> list[Event]:
        self._has_requested = False
        if self.phase is CLOSED:
            return self.take_events()
        self.left = self.limits.messages_per_read
        try:
            if not self._handshake.completed:
                data = self._shake_hands(data)
            self._reader.feed(data)
            try:
                self._read_messages()
            finally:
                self._reader.keep()
        except RemoteProtocolError as error:
            if not self._defer_error(error):
                self.move(Step.CLOSE)
                raise
        self._acknowledge()
        return self.take_events()

    def _acknowledge(self) -> None:
        received = self.bytes_received - HANDSHAKE_BYTES
        if self.acknowledging.is_due(received):
            self._queue(control.acknowledgement(received), CSID_CONTROL)

    def _shake_hands(self, data: bytes | bytearray | memoryview) -> bytes:
        answer, rest = self._handshake.receive(data)
        if answer:
            self._output.append(answer)
        if self._handshake.completed:
            self.move(Step.SHAKE_HANDS)
            self._events.append(HandshakeCompleted(self._handshake.version, self._handshake.echoed))
        return rest

    def _read_messages(self) -> None:
        handlers = self.handlers
        reader = self._reader
        while not (self.paused or self._has_requested) and self.phase is not CLOSED:
            takes_runs = self._take_run()
            if takes_runs and reader.is_empty:
                return
            messages = reader.read(single=takes_runs)
            if not messages:
                if reader.is_held_up:
                    self.stop_reading()
                return
            self.media_messages += len(messages)  # All, as to tell them apart would cost more.
            for type_id, timestamp, stream_id, payload in messages:
                if type_id != VIDEO and type_id != AUDIO and type_id != AGGREGATE:
                    self.charge(type_id, payload)
                handler = handlers.get(type_id)
                if handler is None:
                    self._on_unknown(type_id, stream_id, payload)
                else:
                    handler(self, timestamp, stream_id, payload)
            if not takes_runs and messages[-1][0] not in reader.stops and reader.error is None:
                return  # All that there was: nothing else stops the reader early.

    # --- Media path ---

    def take_media(self, data: memoryview) -> int:
        """Of bytes of the peer, how many were audio and video for the one message stream that has a sink, and went
        there at once. The others are for `receive_data`."""
        stream = self._one_media_stream()
        run = self._reader.take_run_of(data, stream.stream_id) if stream is not None else None
        if stream is None or stream.sink is None or run is None:
            return 0
        self.bytes_received += run.end
        self.media_messages += len(run.messages)
        stream.sink.run(run)
        self._acknowledge()
        return run.end

    def _take_run(self) -> bool:
        """Take the audio and video that comes next, all at once. Whether that may go on behind what comes then."""
        stream = self._one_media_stream()
        if stream is None or stream.sink is None:
            return False
        run = self._reader.take_run(stream.stream_id)
        if run is not None:
            self.media_messages += len(run.messages)
            stream.sink.run(run)
        return True

    def _one_media_stream(self) -> MediaStream | None:
        """The message stream whose media alone is to come, for its sink, while nothing that came before waits."""
        return None

    # --- What is read ---

    def stop_reading(self) -> None:
        """Before a decision nothing more can be taken."""
        if not self.paused:
            self.paused = True
            self._events.append(ReadingStopped())

    def _defer_error(self, fault: RemoteProtocolError) -> bool:
        """Whether the fault has to wait, as what came before it does."""
        return False

    def charge(self, type_id: int, payload: bytes) -> None:
        """Count a message that costs more than audio or video of its size, with the values that `payload` may have."""
        cost = 1 + min(len(payload), self.limits.amf_elements) // BYTES_PER_UNIT
        if type_id in DATA:
            self.media_messages += cost * MEDIA_PER_MESSAGE
        else:
            self._control_messages += cost
        self.consume_budget(cost)

    def consume_budget(self, messages: int) -> None:
        self.left -= messages
        if self.left < 0:
            raise LimitExceeded(f"more than {self.limits.messages_per_read} messages at once")

    def _queue(self, message: Message, chunk_stream_id: int) -> None:
        self._output.append(self._writer.encode(message, chunk_stream_id))

    def report(self, event: Event) -> None:
        """The shell is told by the next `receive_data` or `events`."""
        self._events.append(event)

    def move(self, step: Step) -> None:
        phase = PHASES.get((self.phase, step))
        if phase is None:
            raise LocalProtocolError(f"{step.name} is not possible in phase {self.phase.name}")
        self.phase = phase

    # --- Other messages ---

    def _on_unknown(self, type_id: int, stream_id: int, payload: bytes) -> None:
        self.require_connected()
        self._events.append(UnknownMessage(type_id, stream_id, payload))

    def require_open(self) -> None:
        if self.phase is not Phase.CONNECTED:
            raise LocalProtocolError("the connection is not accepted yet")

    def require_connected(self) -> None:
        if self.phase is not Phase.CONNECTED:
            raise RemoteProtocolError("a message before connect was accepted")

    def _report_data(self, type_id: int, timestamp: int, stream_id: int, payload: bytes) -> None:
        data = self.read_or_report(decode_data, type_id, stream_id, payload)
        if data is not None:
            self._events.append(DataReceived(stream_id, timestamp, data.name, data.values, data.payload, data.kept))
            self._report_rest(type_id, stream_id, data.rest)

    def read_or_report(
        self, decode: Callable[[bytes, Limits], Content], type_id: int, stream_id: int, payload: bytes
    ) -> Content | None:
        """The content; None for what can't be read, which is reported as unknown: it is no reason to end a live stream.
        Raises LimitExceeded."""
        try:
            return decode(payload, self.limits)
        except LimitExceeded:
            raise
        except RemoteProtocolError:
            self._events.append(UnknownMessage(type_id, stream_id, payload))
            return None

    def _report_rest(self, type_id: int, stream_id: int, rest: bytes) -> None:
        if rest:
            self._events.append(UnknownMessage(type_id, stream_id, rest))

    # --- Commands (section 7.2) ---

    def _on_command(
        self, timestamp: int, stream_id: int, payload: bytes, *, type_id: int = MessageType.COMMAND_AMF0
    ) -> None:
        """One that can't be read is ignored, and what can't be read of one; but not before the connection is accepted,
        when it tells of another protocol."""
        command: Command | None
        if self.phase is Phase.CONNECTED:
            command = self.read_or_report(decode_command, type_id, stream_id, payload)
            if command is None:
                return
        else:
            command = decode_command(payload, self.limits)
            if command.name not in self.opening_commands:
                self._on_early_command(command)
                return
        if self._must_defer((type_id, timestamp, stream_id, payload), command):
            return
        self._report_rest(type_id, stream_id, command.rest)
        handler = self.commands.get(command.name)
        if handler is None:
            self._on_call(stream_id, command)
        else:
            handler(self, stream_id, command)

    def _must_defer(self, message: RawMessage, command: Command) -> bool:
        """Whether the command, which the message holds, can't be done before a decision is made. It is kept then."""
        return False

    def _on_early_command(self, command: Command) -> None:
        """Ignored: some servers say onBWDone before they have answered `connect`."""

    def send_command(self, stream_id: int, name: str, transaction: float, command_object: Any, *arguments: Any) -> None:
        command = Command(name, transaction, command_object, list(arguments))
        chunk_stream_id = CSID_STATUS if name == "onStatus" else CSID_COMMAND
        self._queue(encode_command(command, stream_id, amf3=self.amf3), chunk_stream_id)

    # --- Calls of the peer's (section 7.2.1.2) ---

    def _on_call(self, stream_id: int, command: Command) -> None:
        """A procedure that is none of the protocol's. It doesn't hold the connection up."""
        if command.name in ANSWERS:
            return
        if len(command.name) > self.limits.procedure_name_characters:
            self.refuse_call(command, NAME_TOO_LONG)
            return
        request_id = self.expect_answer(command) if self.answers_calls else 0
        if request_id is None:
            self.refuse_call(command, TOO_MANY)
            return
        name, transaction, command_object = command.name, command.transaction, command.command_object
        self.report(CallReceived(request_id, stream_id, name, transaction, command_object, command.arguments))
        if not self.answers_calls:
            self.refuse_call(command, NO_PROCEDURE)

    def expect_answer(self, command: Command) -> int | None:
        """The request id under which the shell answers; 0: no answer is wanted; None: too many are awaited."""
        return self.calls.receive(command.transaction) if command.answered else 0

    def refuse_call(self, command: Command, description: str) -> None:
        if command.answered:
            info = info_object(level_of(CALL_FAILED), CALL_FAILED, description)
            self.send_command(0, "_error", command.transaction, None, info)

    def answer_call(self, request_id: int, *values: Any) -> None:
        """The answer to CallReceived, or to LengthRequested. LocalProtocolError: the values can't be sent; it still
        awaits an answer."""
        self._answer(request_id, "_result", *values)

    def fail_call(self, request_id: int, code: str, description: str) -> None:
        self._answer(request_id, "_error", info_object("error", code, description))

    def _answer(self, request_id: int, name: str, *values: Any) -> None:
        command = Command(name, self.calls.transaction_of(request_id), None, list(values))
        try:
            message = encode_command(command, amf3=self.amf3)
        except RecursionError as error:
            raise LocalProtocolError("values nested too deep") from error
        if len(message.payload) > self.limits.call_result_bytes:
            raise LocalProtocolError(f"a result of more than {self.limits.call_result_bytes} bytes")
        self.calls.complete_received(request_id)
        self._queue(message, CSID_COMMAND)

    # --- Our own calls ---

    def call(self, procedure: str, *arguments: Any, stream_id: int = 0, command_object: Any = None) -> float:
        """Any procedure of the peer's: ResultReceived tells its answer by the transaction id that this gives."""
        self.require_open()
        return self._call(stream_id, procedure, command_object, *arguments)

    def notify(self, procedure: str, *arguments: Any, stream_id: int = 0) -> None:
        """A call with transaction id 0, which wants no answer."""
        self.require_open()
        self.send_command(stream_id, procedure, 0, None, *arguments)

    def _call(self, stream_id: int, procedure: str, command_object: Any, *arguments: Any) -> float:
        transaction = self.calls.start(procedure)
        try:
            self.send_command(stream_id, procedure, transaction, command_object, *arguments)
        except LocalProtocolError:
            self.calls.cancel(transaction)
            raise
        return transaction

    def on_connected(self, succeeded: bool, command: Command) -> None:
        """The answer to our `connect`."""


COMMON_HANDLERS: Final[dict[int, Handler]] = {
    MessageType.COMMAND_AMF0: Connection._on_command,
    MessageType.COMMAND_AMF3: partial(Connection._on_command, type_id=MessageType.COMMAND_AMF3),
}
"""Protocol control and user control are handled in `ingest.rtmp.handlers`."""
