"""What may happen when: the states of a connection and of each of its message streams, as tables.

A connection (section 5.2.1 and 7.2.1.1):

    HANDSHAKE -> CONNECTING -> DECIDING -> CONNECTED
        any of them -> CLOSED

A message stream, from createStream to deleteStream (section 7.2.2):

    IDLE -> PUBLISH_ASKED -> PUBLISHING -> IDLE
    IDLE -> PLAY_ASKED -> PLAYING -> IDLE

`*_ASKED` and DECIDING last while our side decides, and nothing that the peer sends is processed then.
"""

from enum import Enum, auto
from typing import Final


class Phase(Enum):
    HANDSHAKE = auto()
    CONNECTING = auto()
    """The handshake is done; `connect` is awaited."""
    DECIDING = auto()
    """`connect` awaits its answer."""
    CONNECTED = auto()
    CLOSED = auto()
    """An error, a rejected connect, or an end by our side."""


class Step(Enum):
    """What moves a connection on."""

    SHAKE_HANDS = auto()
    ASK = auto()
    ACCEPT = auto()
    REJECT = auto()
    CLOSE = auto()


PHASES: Final[dict[tuple[Phase, Step], Phase]] = {
    (Phase.HANDSHAKE, Step.SHAKE_HANDS): Phase.CONNECTING,
    (Phase.CONNECTING, Step.ASK): Phase.DECIDING,
    (Phase.DECIDING, Step.ACCEPT): Phase.CONNECTED,
    (Phase.DECIDING, Step.REJECT): Phase.CLOSED,
    **{(phase, Step.CLOSE): Phase.CLOSED for phase in Phase},
}


class StreamState(Enum):
    IDLE = auto()
    PUBLISH_ASKED = auto()
    PUBLISHING = auto()
    PLAY_ASKED = auto()
    PLAYING = auto()


class StreamStep(Enum):
    """What moves a message stream on. `STOP` is the peer's (closeStream, FCUnpublish, ...) or our own."""

    PUBLISH = auto()
    PLAY = auto()
    ACCEPT = auto()
    REJECT = auto()
    STOP = auto()


STREAM_STATES: Final[dict[tuple[StreamState, StreamStep], StreamState]] = {
    (StreamState.IDLE, StreamStep.PUBLISH): StreamState.PUBLISH_ASKED,
    (StreamState.IDLE, StreamStep.PLAY): StreamState.PLAY_ASKED,
    (StreamState.IDLE, StreamStep.STOP): StreamState.IDLE,
    (StreamState.PUBLISH_ASKED, StreamStep.ACCEPT): StreamState.PUBLISHING,
    (StreamState.PUBLISH_ASKED, StreamStep.REJECT): StreamState.IDLE,
    (StreamState.PUBLISHING, StreamStep.STOP): StreamState.IDLE,
    (StreamState.PLAY_ASKED, StreamStep.ACCEPT): StreamState.PLAYING,
    (StreamState.PLAY_ASKED, StreamStep.REJECT): StreamState.IDLE,
    (StreamState.PLAYING, StreamStep.STOP): StreamState.IDLE,
}
"""What is missing is illegal: the peer gets an error status, our own side LocalProtocolError."""
