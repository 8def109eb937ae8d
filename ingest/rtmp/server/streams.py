"""What a server's connection keeps of its message streams, and of the requests that await a decision."""

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Protocol

from ingest.rtmp.chunks.run_reader import Run
from ingest.rtmp.messages.message import RawMessage
from ingest.rtmp.states import STREAM_STATES, StreamState, StreamStep


class MediaSink(Protocol):
    """Takes a publishing stream's audio and video as they are read, without an event for each.

    It is called within `receive_data` and `events`, and must not call the connection. Timestamps: 32 bits, ms.
    """

    def audio(self, timestamp: int, payload: bytes) -> None: ...

    def video(self, timestamp: int, payload: bytes) -> None: ...

    def run(self, run: Run) -> None:
        """Several messages of both kinds, whose bytes are gone afterwards."""


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
    held: list[RawMessage] = field(default_factory=list, repr=False)
    """What has come for it since its request, which awaits a decision."""

    def move(self, step: StreamStep) -> bool:
        """False when the table doesn't allow it."""
        state = STREAM_STATES.get((self.state, step))
        if state is None:
            return False
        self.state = state
        return True


class Asked(Enum):
    CONNECT = auto()
    PUBLISH = auto()
    PLAY = auto()


@dataclass(slots=True)
class Request:
    """What awaits a decision."""

    request_id: int
    kind: Asked
    transaction: float
    """Of the command."""
    stream: MessageStream | None = None
    reset: bool = False
    follows: bool = False
    """An item of a playlist, behind the first."""
    name: str = field(default="", repr=False)
    """What is to be played, once accepted."""
