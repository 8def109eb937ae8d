"""A message of a live stream: serialised once, shared by all of its players."""

from typing import Final, Literal

from ingest.live.disposable import is_disposable
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

METADATA_AT: Final = 0
"""The time of all onMetaData: they say what the stream is, not what happens at a time. FFmpeg takes those of another
time for a track of subtitles, and other servers send them so."""
METADATA_SLOT: Final = 0
"""Theirs among the data that are kept."""


class SharedMessage:
    """One media or data message. Immutable but for the bytes that it keeps."""

    __slots__ = (
        "_disposable",
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
        "tag",
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
        self.tag: bytes | None = None
        """As a tag of an FLV file, with its size behind it, once somebody has made it."""
        self._others: dict[int, bytes] | None = None
        self._disposable: bool | None = None

    @property
    def is_metadata(self) -> bool:
        """onMetaData: they are of no time."""
        return self.kind == "data" and self.is_header and self.slot == METADATA_SLOT

    @property
    def variants(self) -> int:
        """How many messages may be sent in its place, itself included."""
        return 1

    @property
    def is_disposable(self) -> bool:
        """A frame that no other refers to. Found out once, and only if some player is slow."""
        found = self._disposable
        if found is None:
            found = self.is_video and self.is_frame and not self.is_keyframe and is_disposable(self.payload)
            self._disposable = found
        return found

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
        """The same message at another time, if it is of any."""
        if self.is_metadata:
            return self
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
