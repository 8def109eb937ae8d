"""The chunk streams on which one player is sent a recording, with compressed headers.

No other message goes out on them, so that what is written beside (answers, the shared bytes of a live stream) can come
between any two chunks: control never waits for a long frame.
"""

from collections.abc import Iterable
from typing import Final

from ingest.live.shared import OUT_CHUNK_SIZE
from ingest.rtmp.chunks.outbox import Outbox
from ingest.rtmp.chunks.writer import ChunkWriter
from ingest.rtmp.messages import MessageType
from ingest.rtmp.messages.message import Message

FIRST_CSID: Final = 7
"""Above those that servers use for control, answers and live streams."""
OFFSETS: Final[dict[int, int]] = {MessageType.VIDEO: 0, MessageType.AUDIO: 1, MessageType.DATA_AMF0: 2}
LONG_BYTES: Final = OUT_CHUNK_SIZE
"""A longer message has several chunks: what is behind it may come between them."""


class Lane:
    """`number`: one that no other lane of the connection has."""

    def __init__(self, number: int, stream_id: int) -> None:
        self.number = number
        self._stream_id = stream_id
        self._first = FIRST_CSID + number * len(OFFSETS)
        writer = ChunkWriter(compress=True)
        writer.chunk_size = OUT_CHUNK_SIZE
        self._outbox = Outbox(writer)

    @classmethod
    def beside(cls, others: Iterable["Lane"], stream_id: int) -> "Lane":
        """One for a message stream of a connection that has others."""
        taken = {lane.number for lane in others}
        return cls(min(set(range(len(taken) + 1)) - taken), stream_id)

    @property
    def waiting_bytes(self) -> int:
        return self._outbox.waiting_bytes

    def add(self, type_id: int, timestamp: int, payload: bytes) -> None:
        self._outbox.add(Message(type_id, timestamp, self._stream_id, payload), self._first + OFFSETS[type_id])

    def take(self, limit: int | None = None) -> bytes:
        """Whole chunks of about so many bytes, sound between those of a picture; without a limit all, in order."""
        return self._outbox.take(limit)
