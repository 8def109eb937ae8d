"""What a connection tells its shell: the whole vocabulary between protocol and application.

Events that need a decision carry a `request_id`; the connection processes nothing further until it is answered
(`accept_*` or `reject_*`), so pipelined media can't overtake an authorisation.

What may hold a stream key, or is long, is left out of the representations, so an event in a log gives nothing away.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

from ingest.rtmp.capabilities import NO_CAPABILITIES, Capabilities
from ingest.rtmp.messages.control import UserControl
from ingest.rtmp.messages.shared_object import SharedObjectEvent

Transition = Literal["", "switch", "swap"]


class Event:
    __slots__ = ()


@dataclass(slots=True)
class HandshakeCompleted(Event):
    """C0, C1 and C2 have arrived (RTMP 1.0, section 5.2), or S0, S1 and S2. What C2 or S2 hold ends no connection."""

    version: int
    """C0: the version that the client asked for; S0: that the server chose."""
    echoed: bool = False
    """Whether the peer's second part answers our first, by its time and random bytes or by its signature.

    If so, the time from our first part to this event is a round trip. Who fills its second part in another way may have
    sent it without waiting for ours.
    """


# --- NetConnection (section 7.2.1) ---


@dataclass(slots=True)
class ConnectRequested(Event):
    """`connect`. Texts are as sent: taking secrets out is the shell's work."""

    request_id: int
    app: str = field(repr=False)
    tc_url: str = field(repr=False)
    flash_ver: str
    object_encoding: int
    properties: dict[str, Any] = field(repr=False)
    arguments: list[Any] = field(default_factory=list, repr=False)
    capabilities: Capabilities = NO_CAPABILITIES


@dataclass(slots=True)
class CallReceived(Event):
    """`call`: a command that no other event covers. The connection goes on meanwhile.

    The shell answers by `answer_call` or `fail_call`, unless `request_id` is 0: then no answer is wanted, or the
    connection has refused it already (`Connection.answers_calls`).
    """

    request_id: int
    stream_id: int
    procedure: str
    transaction: float
    command_object: Any = field(repr=False)
    arguments: list[Any] = field(repr=False)


@dataclass(slots=True)
class LengthRequested(Event):
    """`getStreamLength`: `answer_call` with the seconds. The connection goes on meanwhile."""

    request_id: int
    name: str = field(repr=False)


@dataclass(slots=True)
class CloseRequested(Event):
    """`close`; comes after what ended its streams. Nothing more is read."""


# --- NetStream (section 7.2.2) ---


@dataclass(slots=True)
class PublishRequested(Event):
    request_id: int
    stream_id: int
    name: str = field(repr=False)
    publish_type: str
    """'live', 'record' or 'append'; missing means live."""


@dataclass(slots=True)
class PublishStopped(Event):
    """The client ended its publishing by FCUnpublish, closeStream or deleteStream."""

    stream_id: int
    command: str


@dataclass(slots=True)
class PlayRequested(Event):
    """`play`, the next item of a playlist, or `play2` to something else than what plays.

    `start` and `duration` are as sent, in the client's unit; -2 and -1 where it sent none. A start <= -1000 is already
    divided by 1000. `reset` is False where it sent none.
    """

    request_id: int
    stream_id: int
    name: str = field(repr=False)
    start: float
    duration: float
    reset: bool
    follows: bool = False
    """An item of a playlist behind the first: what played on the message stream is over."""
    transition: Transition = ""
    """Of play2: how to go over from what plays, which goes on meanwhile. Else ""."""


@dataclass(slots=True)
class PlayStopped(Event):
    stream_id: int
    command: str


@dataclass(slots=True)
class PauseRequested(Event):
    """`pause`, on a message stream that plays or publishes. The shell answers by a status, or `send_error`."""

    stream_id: int
    transaction: float
    paused: bool
    milliseconds: float
    """Of the client's time: where it pauses, or wants to go on."""


@dataclass(slots=True)
class SeekRequested(Event):
    """`seek`, on a message stream that plays."""

    stream_id: int
    transaction: float
    milliseconds: float


@dataclass(slots=True)
class ReceiveRequested(Event):
    """`receiveAudio` and `receiveVideo`, on a message stream that plays."""

    stream_id: int
    kind: Literal["audio", "video"]
    wanted: bool


@dataclass(slots=True)
class StatusSent(Event):
    """An onStatus, or the answer to connect, was queued for the client."""

    stream_id: int
    level: str
    code: str
    description: str


# --- Media (section 7.1) ---


@dataclass(slots=True)
class AudioReceived(Event):
    """Message type 8 on a publishing stream. `timestamp` is unwrapped nowhere: 32 bits, ms.

    Audio and video come as events only where `accept_publish` was given no sink for them.
    """

    stream_id: int
    timestamp: int
    payload: bytes = field(repr=False)


@dataclass(slots=True)
class VideoReceived(Event):
    stream_id: int
    timestamp: int
    payload: bytes = field(repr=False)


@dataclass(slots=True)
class DataReceived(Event):
    """Message type 18 (or 15) on a publishing stream, with `@setDataFrame` already taken off.

    `name` is the handler's ('onMetaData', 'onCuePoint', ...), `values` what follows it, and `payload` the AMF0 body
    [name, *values] to relay. What came in AMF3 is AMF0 in both (see `Amf3ToAmf0`).
    """

    stream_id: int
    timestamp: int
    name: str
    values: list[Any]
    payload: bytes = field(repr=False)
    kept: bool = False


# --- Shared objects (section 7.1.3) ---


@dataclass(slots=True)
class SharedObjectReceived(Event):
    """Message type 19 (or 16). Its events are in the order in which they happened."""

    name: str = field(repr=False)
    version: int
    persistent: bool
    events: list[SharedObjectEvent] = field(repr=False)


# --- Control (sections 5.4 and 7.1.7) ---


@dataclass(slots=True)
class BufferLengthSet(Event):
    stream_id: int
    length_ms: int


@dataclass(slots=True)
class AcknowledgementReceived(Event):
    """More may be sent: see `SendingWindow`."""

    sequence_number: int


@dataclass(slots=True)
class PingAnswered(Event):
    """PingResponse: `timestamp` is what our PingRequest carried."""

    timestamp: int


@dataclass(slots=True)
class UserControlReceived(Event):
    """A user control event that the connection does nothing about by itself (StreamBegin, StreamEOF, ...).

    A server gets one of them, the answer to a request for SWF verification.
    """

    event: UserControl
    values: tuple[int | bytes, ...]
    """As `messages.control.USER_CONTROL_LAYOUTS` has them: mostly the message stream's id."""


@dataclass(slots=True)
class ReadingStopped(Event):
    """Too much has come for what awaits a decision: until then nothing more is read (`paused`)."""


@dataclass(slots=True)
class UnknownMessage(Event):
    """A message type or user control event that is not understood, or a message that can't be read: never a reason to
    disconnect."""

    type_id: int
    stream_id: int
    payload: bytes = field(repr=False)
    """All of it; but only the end that can't be read, where what comes before it was taken."""


# --- Answers, and what only a client gets ---


@dataclass(slots=True)
class ResultReceived(Event):
    """`_result` or `_error` to one of our calls; `procedure` is what was called."""

    procedure: str
    transaction: float
    succeeded: bool
    values: list[Any]


@dataclass(slots=True)
class StatusReceived(Event):
    stream_id: int
    level: str
    code: str
    description: str
    info: dict[str, Any]
