"""What may happen when: the states of a connection and of each of its message streams, as tables.

A connection (section 5.2.1 and 7.2.1.1):

    HANDSHAKE -> CONNECTING -> DECIDING -> CONNECTED
        any of them -> CLOSED

A message stream, from createStream to deleteStream (section 7.2.2):

    IDLE -> PUBLISH_REQUESTED -> PUBLISHING -> IDLE
    IDLE -> PLAY_REQUESTED -> PLAYING -> IDLE
    PLAYING -> PLAY_REQUESTED: the next item of its playlist; SWITCH_REQUESTED: play2, while what plays goes on

`*_REQUESTED` and DECIDING last while our side decides: what the peer sends for that stream, or in DECIDING at all, is
not processed then.
"""

from enum import Enum, auto
from typing import Final


class Phase(Enum):
    HANDSHAKE = auto()
    CONNECTING = auto()
    """The handshake is done; `connect` is awaited."""
    DECIDING = auto()
    CONNECTED = auto()
    CLOSED = auto()
    """An error, a rejected connect, or an end by our side."""


class Step(Enum):
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
    PUBLISH_REQUESTED = auto()
    PUBLISHING = auto()
    PLAY_REQUESTED = auto()
    PLAYING = auto()
    SWITCH_REQUESTED = auto()


class StreamStep(Enum):
    """What moves a message stream on. `STOP` is the peer's (closeStream, FCUnpublish, ...) or our own.

    `FOLLOW`: what played is over, and the playlist goes on; `SKIP`: the item that was asked for can't be played.
    """

    PUBLISH = auto()
    PLAY = auto()
    FOLLOW = auto()
    SKIP = auto()
    SWITCH = auto()
    ACCEPT = auto()
    REJECT = auto()
    STOP = auto()


STREAM_STATES: Final[dict[tuple[StreamState, StreamStep], StreamState]] = {
    (StreamState.IDLE, StreamStep.PUBLISH): StreamState.PUBLISH_REQUESTED,
    (StreamState.IDLE, StreamStep.PLAY): StreamState.PLAY_REQUESTED,
    (StreamState.IDLE, StreamStep.STOP): StreamState.IDLE,
    (StreamState.PUBLISH_REQUESTED, StreamStep.ACCEPT): StreamState.PUBLISHING,
    (StreamState.PUBLISH_REQUESTED, StreamStep.REJECT): StreamState.IDLE,
    (StreamState.PUBLISHING, StreamStep.STOP): StreamState.IDLE,
    (StreamState.PLAY_REQUESTED, StreamStep.ACCEPT): StreamState.PLAYING,
    (StreamState.PLAY_REQUESTED, StreamStep.REJECT): StreamState.IDLE,
    (StreamState.PLAYING, StreamStep.STOP): StreamState.IDLE,
    (StreamState.PLAYING, StreamStep.FOLLOW): StreamState.PLAY_REQUESTED,
    (StreamState.PLAY_REQUESTED, StreamStep.SKIP): StreamState.PLAYING,
    (StreamState.PLAYING, StreamStep.SWITCH): StreamState.SWITCH_REQUESTED,
    (StreamState.SWITCH_REQUESTED, StreamStep.ACCEPT): StreamState.PLAYING,
    (StreamState.SWITCH_REQUESTED, StreamStep.REJECT): StreamState.PLAYING,
    # What played has ended: now a play like any.
    (StreamState.SWITCH_REQUESTED, StreamStep.STOP): StreamState.PLAY_REQUESTED,
}
"""What is missing is illegal: the peer gets an error status, our own side LocalProtocolError."""
