"""A message of a live stream: serialised once, shared by all of its players."""

from typing import Final, Literal

from ingest.rtmp.chunks import CSID_AUDIO, CSID_DATA, CSID_VIDEO
from ingest.rtmp.chunks.writer import encode_message
from ingest.rtmp.messages.message import Message, MessageType

OUT_CHUNK_SIZE: Final = 60000
"""Bytes. A connection that is to play must have announced it (Set Chunk Size) before it is sent shared bytes."""

MAX_OTHERS: Final = 3
"""Message stream ids beside the first one for which the bytes are kept. Nearly every player uses 1."""

Kind = Literal["audio", "video", "data"]

WIRE: Final = {
    "audio": (MessageType.AUDIO, CSID_AUDIO),
    "video": (MessageType.VIDEO, CSID_VIDEO),
    "data": (MessageType.DATA_AMF0, CSID_DATA),
}
"""Message type and chunk stream of each kind."""


class SharedMessage:
    """One media or data message. Immutable but for the bytes that it keeps."""

    __slots__ = (
        "_others",
        "arrived",
        "is_frame",
        "is_header",
        "is_keyframe",
        "is_video",
        "kind",
        "payload",
        "size",
        "slot",
        "timestamp",
        "wire",
        "wire_id",
    )

    def __init__(
        self,
        kind: Kind,
        timestamp: int,
        payload: bytes,
        arrived: float,
        is_frame: bool = False,
        is_keyframe: bool = False,
        is_header: bool = False,
        slot: int = 0,
    ) -> None:
        self.kind: Kind = kind
        self.timestamp = timestamp
        """On the players' timeline: milliseconds, 32 bits."""
        self.payload = payload
        self.size = len(payload)
        self.arrived = arrived
        """When it came, in seconds (monotonic). Ages are counted by it, as timestamps may be wrong."""
        self.is_video = kind == "video"
        self.is_frame = is_frame
        """Coded media, not a header, command or data."""
        self.is_keyframe = is_keyframe
        """Begins a group of pictures."""
        self.is_header = is_header
        """A sequence header or metadata: never dropped, but for a newer one of its kind and slot."""
        self.slot = slot
        self.wire_id = -1
        self.wire = b""
        """What `encoded` gives for `wire_id`, once it was asked for: saves nearly every player a call."""
        self._others: dict[int, bytes] | None = None

    def encoded(self, stream_id: int) -> bytes:
        """The message in chunks under a type 0 header, on this message stream."""
        if stream_id == self.wire_id:
            return self.wire
        others = self._others
        if others is not None and stream_id in others:
            return others[stream_id]
        type_id, chunk_stream_id = WIRE[self.kind]
        message = Message(type_id, self.timestamp, stream_id, self.payload)
        encoded = encode_message(message, chunk_stream_id=chunk_stream_id, chunk_size=OUT_CHUNK_SIZE)
        if self.wire_id < 0:
            self.wire_id, self.wire = stream_id, encoded
        elif others is None:
            self._others = {stream_id: encoded}
        elif len(others) < MAX_OTHERS:
            others[stream_id] = encoded
        return encoded

    def at(self, timestamp: int) -> "SharedMessage":
        """The same message at another time."""
        return SharedMessage(
            self.kind,
            timestamp,
            self.payload,
            self.arrived,
            is_frame=self.is_frame,
            is_keyframe=self.is_keyframe,
            is_header=self.is_header,
            slot=self.slot,
        )
