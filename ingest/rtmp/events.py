"""What a connection tells its shell: the whole vocabulary between protocol and application.

Events that need a decision carry a `request_id`; the connection processes nothing further until it is answered
(`accept_*` or `reject_*`), so pipelined media can't overtake an authorisation.

What may hold a stream key, or is long, is left out of the representations, so an event in a log gives nothing away.
"""

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class HandshakeCompleted:
    """C0, C1 and C2 have arrived (RTMP 1.0, section 5.2). C2's content is never judged."""

    version: int
    """C0: the version that the client asked for."""


# --- NetConnection (section 7.2.1) ---


@dataclass(slots=True)
class ConnectRequested:
    """`connect`. Texts are as sent: taking secrets out is the shell's work."""

    request_id: int
    app: str = field(repr=False)
    tc_url: str = field(repr=False)
    flash_ver: str
    object_encoding: int
    properties: dict[str, Any] = field(repr=False)
    """The whole command object."""
    arguments: list[Any] = field(default_factory=list, repr=False)


@dataclass(slots=True)
class CallReceived:
    """A command that no other event covers. Already answered: unknown procedures get `_error` Call.Failed."""

    stream_id: int
    procedure: str
    transaction: float
    command_object: Any = field(repr=False)
    arguments: list[Any] = field(repr=False)


@dataclass(slots=True)
class StreamCreated:
    stream_id: int


@dataclass(slots=True)
class StreamDeleted:
    """`deleteStream`; comes after PublishStopped or PlayStopped when the stream was in use."""

    stream_id: int


# --- NetStream (section 7.2.2) ---


@dataclass(slots=True)
class PublishRequested:
    request_id: int
    stream_id: int
    name: str = field(repr=False)
    publish_type: str
    """'live', 'record' or 'append'; missing means live."""


@dataclass(slots=True)
class PublishStopped:
    """The client ended its publishing by FCUnpublish, closeStream or deleteStream."""

    stream_id: int
    command: str


@dataclass(slots=True)
class PlayRequested:
    """`start` and `duration` are as sent, in the client's unit; -2 and -1 where it sent none.

    A start <= -1000 is already divided by 1000. `reset` is False where it sent none.
    """

    request_id: int
    stream_id: int
    name: str = field(repr=False)
    start: float
    duration: float
    reset: bool


@dataclass(slots=True)
class PlayStopped:
    stream_id: int
    command: str


@dataclass(slots=True)
class StatusSent:
    """An onStatus, or the answer to connect, was queued for the client."""

    stream_id: int
    level: str
    code: str
    description: str


# --- Media (section 7.1) ---


@dataclass(slots=True)
class AudioReceived:
    """Message type 8 on a publishing stream. `timestamp` is unwrapped nowhere: 32 bits, ms.

    Audio and video come as events only where `accept_publish` was given no sink for them.
    """

    stream_id: int
    timestamp: int
    payload: bytes = field(repr=False)


@dataclass(slots=True)
class VideoReceived:
    """Message type 9 on a publishing stream."""

    stream_id: int
    timestamp: int
    payload: bytes = field(repr=False)


@dataclass(slots=True)
class DataReceived:
    """Message type 18 (or 15) on a publishing stream, with `@setDataFrame` already taken off.

    `name` is the handler's ('onMetaData', 'onCuePoint', ...), `values` what follows it, and `payload` the AMF0 body
    [name, *values] to relay.
    """

    stream_id: int
    timestamp: int
    name: str
    values: list[Any]
    payload: bytes = field(repr=False)


# --- Control (sections 5.4 and 7.1.7) ---


@dataclass(slots=True)
class BufferLengthSet:
    stream_id: int
    length_ms: int


@dataclass(slots=True)
class AcknowledgementReceived:
    sequence_number: int


@dataclass(slots=True)
class PingAnswered:
    """PingResponse: `timestamp` is what our PingRequest carried."""

    timestamp: int


@dataclass(slots=True)
class UnknownMessage:
    """A message type or user control event that is not understood: never a reason to disconnect."""

    type_id: int
    stream_id: int
    payload: bytes = field(repr=False)


# --- Client side ---


@dataclass(slots=True)
class ResultReceived:
    """`_result` or `_error` to one of our calls; `procedure` is what was called."""

    procedure: str
    transaction: float
    succeeded: bool
    values: list[Any]


@dataclass(slots=True)
class StatusReceived:
    """onStatus."""

    stream_id: int
    level: str
    code: str
    description: str
    info: dict[str, Any]


@dataclass(slots=True)
class UserControlReceived:
    """A user control event that the client connection doesn't answer by itself (StreamBegin, StreamEOF, ...)."""

    event: int
    value: int


Event = (
    HandshakeCompleted
    | ConnectRequested
    | CallReceived
    | StreamCreated
    | StreamDeleted
    | PublishRequested
    | PublishStopped
    | PlayRequested
    | PlayStopped
    | StatusSent
    | AudioReceived
    | VideoReceived
    | DataReceived
    | BufferLengthSet
    | AcknowledgementReceived
    | PingAnswered
    | UnknownMessage
    | ResultReceived
    | StatusReceived
    | UserControlReceived
)
