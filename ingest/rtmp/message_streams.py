"""A server's connection, as its commands see it: message streams, the requests that await a decision, answers.

A request holds up its own message stream alone: what comes for that is kept until the decision, while the connection's
other streams go on, and may ask meanwhile. `connect` holds up all."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final

from ingest.rtmp import status
from ingest.rtmp.capabilities import NO_CAPABILITIES
from ingest.rtmp.connection import Connection
from ingest.rtmp.errors import LocalProtocolError, RemoteProtocolError
from ingest.rtmp.events import Event, PlayRequested, PlayStopped, PublishStopped, StatusSent, Transition
from ingest.rtmp.handshake import ServerHandshake
from ingest.rtmp.limits import DEFAULT_LIMITS, Limits, unadmitted
from ingest.rtmp.messages import AUDIO, VIDEO, RawMessage
from ingest.rtmp.messages.commands import Command, encode_data, number
from ingest.rtmp.run_reader import MediaSink
from ingest.rtmp.states import STREAM_STATES, Phase, Step, StreamState, StreamStep
from ingest.rtmp.status import info_object, level_of


@dataclass(frozen=True, slots=True)
class PlayItem:
    """What is to be played, as asked for: see `events.PlayRequested`."""

    name: str = field(repr=False)
    start: float
    duration: float


@dataclass(slots=True)
class MessageStream:
    """What createStream made (section 7.2.1.3)."""

    stream_id: int
    state: StreamState = StreamState.IDLE
    name: str = ""
    """As the client gave it: may be a key."""
    public_name: str = ""
    sink: MediaSink | None = None
    playlist: list[PlayItem] = field(default_factory=list)
    """What follows when that is over which plays now."""
    buffer_ms: int | None = None
    """How much the client wants to have ahead (SetBufferLength); it may say so before it plays."""
    pending: list[RawMessage] = field(default_factory=list, repr=False)
    """What has come for it since its request, which awaits a decision."""

    def move(self, step: StreamStep) -> bool:
        """False when the table doesn't allow it."""
        state = STREAM_STATES.get((self.state, step))
        if state is None:
            return False
        self.state = state
        return True


class RequestKind(Enum):
    CONNECT = auto()
    PUBLISH = auto()
    PLAY = auto()


@dataclass(slots=True)
class Request:
    kind: RequestKind
    stream: MessageStream | None = None
    transaction: float = 0.0
    """Of connect."""
    name: str = field(default="", repr=False)
    """What the stream plays once it is accepted."""
    reset: bool = False
    follows: bool = False
    """An item of a playlist, behind the first."""


HELD_MEDIA_BYTES: Final = 160
HELD_BYTES: Final = 4096
"""What a message that is kept counts beside its payload: the memory that it takes, and of all but media the time."""


def _weight(message: RawMessage) -> int:
    type_id, _, _, payload = message
    return len(payload) + (HELD_MEDIA_BYTES if type_id in (AUDIO, VIDEO) else HELD_BYTES)


class ServerBase(Connection):
    """What `netconnection` and `netstream` work with."""

    __slots__ = (
        "_chunk_size",
        "_decided",
        "_deferred_error",
        "_last_request_id",
        "_max_pending_bytes",
        "_own_window",
        "_pending_bytes",
        "_requests",
        "capabilities",
        "fc_published_names",
        "ignored_messages",
        "last_stream_id",
        "play_commands",
        "streams",
    )

    def __init__(
        self,
        limits: Limits = DEFAULT_LIMITS,
        *,
        nonce: bytes,
        epoch_ms: int = 0,
        chunk_size: int = 60_000,
        window_bytes: int = 2_500_000,
    ) -> None:
        """`nonce`: 1528 random bytes for S1; `window_bytes`: between acknowledgements, in both directions."""
        super().__init__(limits, ServerHandshake(nonce, epoch_ms), window_bytes=window_bytes, compress=False)
        self._admit(unadmitted(limits))
        self.capabilities = NO_CAPABILITIES
        self._chunk_size = chunk_size
        self._own_window = window_bytes
        self._requests: dict[int, Request] = {}
        """That await their decisions, by id: `connect`, or one for each message stream."""
        self._last_request_id = 0
        self._pending_bytes = 0
        self._decided: list[MessageStream] = []
        """That are to go on with what is pending for them."""
        self._deferred_error: RemoteProtocolError | None = None
        """Found behind what is pending."""
        self.streams: dict[int, MessageStream] = {}
        self.last_stream_id = 0
        self.ignored_messages = 0
        """Media and data messages that came for no open stream, since the latest publish was accepted."""
        self.play_commands = 0
        """All that `Limits.play_commands_per_s` is about, so far."""
        self.fc_published_names: frozenset[str] = frozenset()
        """Names of FCPublish, which await onFCPublish."""

    # --- At any time ---

    def send_status(self, stream_id: int, level: str, code: str, description: str, **info: Any) -> None:
        """Queues onStatus on the message stream, as GStreamer needs it, and reports StatusSent by `events`."""
        self.send_command(stream_id, "onStatus", 0, None, {**info_object(level, code, description), **info})
        self.report(StatusSent(stream_id, level, code, description))

    def send_play_status(self, stream_id: int, code: str, **info: Any) -> None:
        """Queues onPlayStatus, a data message: what Flash Media Server says of recorded streams and playlists."""
        self.send_message(encode_data(stream_id, 0, "onPlayStatus", {"level": "status", "code": code, **info}))

    def send_error(self, transaction: float, code: str, description: str) -> None:
        self.send_command(0, "_error", transaction, None, info_object(level_of(code), code, description))

    def stop_stream(self, stream_id: int) -> None:
        """Ends publishing or playing on our side. Media that still comes is ignored; nothing is sent or reported."""
        stream = self.streams.get(stream_id)
        if stream is None or not stream.move(StreamStep.STOP):
            raise LocalProtocolError("the message stream can't be stopped now")
        stream.playlist.clear()

    def has_next_item(self, stream_id: int) -> bool:
        """Whether something follows what plays: an item of the playlist, or what a play2 asks for."""
        stream = self.streams.get(stream_id)
        return stream is not None and (bool(stream.playlist) or stream.state is StreamState.SWITCH_REQUESTED)

    def play_next_item(self, stream_id: int) -> bool:
        """What played is over: the next item of the playlist is asked for (PlayRequested, with `follows`).

        A play2 that awaits its decision comes first: what it asks for follows then, as an item does.
        False: there is none, and the message stream is idle now.
        """
        stream = self.streams.get(stream_id)
        if stream is not None and stream.state is StreamState.SWITCH_REQUESTED:
            for request in self._requests.values():
                request.follows = request.follows or request.stream is stream
            stream.move(StreamStep.STOP)
            return True
        if stream is None or stream.state is not StreamState.PLAYING:
            raise LocalProtocolError("the message stream doesn't play")
        if not stream.playlist:
            stream.move(StreamStep.STOP)
            return False
        stream.move(StreamStep.FOLLOW)
        self.request_play(stream, stream.playlist.pop(0), follows=True)
        return True

    def request_play(
        self,
        stream: MessageStream,
        item: PlayItem,
        *,
        reset: bool = False,
        follows: bool = False,
        transition: Transition = "",
    ) -> None:
        name, start, duration = item.name, item.start, item.duration
        request_id = self.request(Request(RequestKind.PLAY, stream, name=name, reset=reset, follows=follows))
        self.report(PlayRequested(request_id, stream.stream_id, name, start, duration, reset, follows, transition))

    # --- Requests and their decisions ---

    def request(self, request: Request) -> int:
        """Its id, by which it is decided."""
        self._last_request_id += 1
        self._requests[self._last_request_id] = request
        self._has_requested = True
        if request.kind is RequestKind.CONNECT:
            self.paused = True
        elif request.kind is RequestKind.PUBLISH:
            self._reader.await_limits(self.limits)
        return self._last_request_id

    def resolve_request(self, request_id: int, kind: RequestKind) -> Request:
        request = self._requests.get(request_id)
        if request is None or request.kind is not kind:
            raise LocalProtocolError(f"no {kind.name.lower()} request {request_id} awaits a decision")
        del self._requests[request_id]
        if request.stream is None:
            self.paused = False
        else:
            if not any(other.kind is RequestKind.PUBLISH for other in self._requests.values()):
                self._reader.await_limits(None)
            if request.stream.pending or self.paused:
                self._decided.append(request.stream)
                self.paused = True  # Until what is pending has had its turn, before all that comes.
        return request

    def defer(self, stream: MessageStream, message: RawMessage) -> None:
        """Keep what has come for the stream until the decision. When it is too much, nothing more is read."""
        stream.pending.append(message)
        self._pending_bytes += _weight(message)
        if self._pending_bytes > self._max_pending_bytes:
            self.stop_reading()

    def events(self) -> list[Event]:
        if self._decided:
            decided, self._decided = self._decided, []
            self.left = self.limits.messages_per_read
            self._has_requested = False
            try:
                for stream in decided:
                    self._replay_pending(stream)
            except RemoteProtocolError:
                self.move(Step.CLOSE)
                self._deferred_error = None  # It came behind this one.
                raise
            self.paused = self._pending_bytes > self._max_pending_bytes or self._deferred_error is not None
            if self._has_requested:
                return self.take_events()
        if self._deferred_error is not None and not self._requests:
            self.move(Step.CLOSE)
            fault, self._deferred_error = self._deferred_error, None
            raise fault
        return super().events()

    def _defer_error(self, fault: RemoteProtocolError) -> bool:
        """What came before a fault counts, as it would if each request had been decided at once."""
        if self._requests:
            self._deferred_error = fault
            self.stop_reading()
        return bool(self._requests)

    def _replay_pending(self, stream: MessageStream) -> None:
        """What has come for a stream before its decision. If there is a further request in it, the rest is kept on."""
        pending, stream.pending = stream.pending, []
        self._pending_bytes -= sum(map(_weight, pending))
        for type_id, timestamp, stream_id, payload in pending:
            if self.phase is not Phase.CONNECTED:
                return
            self.handlers[type_id](self, timestamp, stream_id, payload)

    def _admit(self, limits: Limits) -> None:
        self._reader.set_limits(limits)
        self._max_pending_bytes = limits.held_bytes

    def move_stream(self, request: Request, step: StreamStep) -> MessageStream:
        stream = request.stream
        if stream is None or not stream.move(step):
            raise LocalProtocolError("the message stream awaits no decision")
        return stream

    def stop(self, stream: MessageStream, command_name: str) -> None:
        """The client ends what the stream does."""
        state = stream.state
        stream.move(StreamStep.STOP)
        stream.playlist.clear()
        if state is StreamState.PUBLISHING:
            # The status first: it belongs to the session that the event ends.
            self.send_status(stream.stream_id, "status", status.UNPUBLISH_SUCCESS, "Publishing stopped.")
            self.report(PublishStopped(stream.stream_id, command_name))
        elif state is StreamState.PLAYING:
            self.report(PlayStopped(stream.stream_id, command_name))

    def stop_playing(self, stream: MessageStream, command_name: str) -> None:
        """The same, with the status that players are sent."""
        if stream.state is StreamState.PLAYING:
            self.send_status(stream.stream_id, "status", status.PLAY_STOP, "Playing stopped.")
        self.stop(stream, command_name)

    def stream_of(self, stream_id: int) -> MessageStream | None:
        """The message stream; a command on the connection itself means the only one, if there is only one."""
        stream = self.streams.get(stream_id)
        if stream is None and stream_id == 0 and len(self.streams) == 1:
            return next(iter(self.streams.values()))
        return stream

    def may_be_named(self, name: str) -> bool:
        most = self.limits.stream_name_bytes
        return len(name) <= most and len(name.encode(errors="surrogatepass")) <= most

    def find_stream(self, stream_id: int, key: Any, state: StreamState | None = None) -> MessageStream | None:
        """The stream that a command means by an id or name, else by the message stream that it came on."""
        if type(key) in (float, int):
            found = self.streams.get(int(number(key, 0)))
        else:
            found = self._named(key) or self.stream_of(stream_id)
        return found if found is not None and state in (None, found.state) else None

    def _named(self, name: Any) -> MessageStream | None:
        """The one in use, of several that had the name; or the one of that name with parameters, if there is one."""
        if not isinstance(name, str) or not name:
            return None
        named = [stream for stream in self.streams.values() if stream.name == name]
        bare = [stream for stream in self.streams.values() if stream.name.partition("?")[0] == name]
        found = named or (bare if len(bare) == 1 else [])
        return max(found, key=lambda stream: stream.state is not StreamState.IDLE, default=None)

    # --- Answers ---

    def send_result(self, command: Command, *values: Any) -> None:
        if command.answered:
            self.send_command(0, "_result", command.transaction, None, *values)

    def send_publish_notice(self, name: str, code: str, public_name: str) -> None:
        """onFCPublish and onFCUnpublish, which Flash Media Server's clients know."""
        self.send_command(0, name, 0, None, info_object(level_of(code), code, public_name))


CommandHandler = Callable[[ServerBase, int, Command], None]
"""Takes the connection, the message stream id and the command."""
