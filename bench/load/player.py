"""Players. Most only count bytes; a sample reads every message: what was stamped tells delay and loss."""

import time
from typing import Final

from bench.load.client import Client, Target
from bench.load.reel import read_stamp
from ingest.rtmp import Message, MessageType, encode_message, events
from ingest.rtmp.chunk_writer import CSID_CONTROL

ACKNOWLEDGE_BYTES: Final = 2_000_000
"""Players that only count acknowledge so many bytes each time, or what came in so many seconds: to a server it is what
shows that they live."""
ACKNOWLEDGE_S: Final = 5.0


class Player(Client):
    """`log`: the publisher's stamps, if this player reads messages; else it counts."""

    def __init__(self, target: Target, log: dict[int, int] | None) -> None:
        super().__init__(target)
        self.log = log
        self.is_measuring = False
        self.delays_ns: list[int] = []
        self._missing = 0
        """Between two that came."""
        self._last = -1
        self._acknowledged = 0
        self._acknowledged_at = 0.0

    def buffer_updated(self, nbytes: int) -> None:
        if self.log is not None or not self._is_set_up:
            super().buffer_updated(nbytes)
            return
        self.reads += 1
        self.bytes_read += nbytes
        now = time.monotonic()
        if self.bytes_read - self._acknowledged >= ACKNOWLEDGE_BYTES or now - self._acknowledged_at >= ACKNOWLEDGE_S:
            self._acknowledged, self._acknowledged_at = self.bytes_read, now
            number = (self.bytes_read & 0xFFFFFFFF).to_bytes(4, "big")
            message = Message(MessageType.ACKNOWLEDGEMENT, 0, 0, number)
            self.transport.write(encode_message(message, chunk_stream_id=CSID_CONTROL, chunk_size=128))

    def received(self, found: list[events.Event]) -> None:
        super().received(found)
        if not self.is_measuring or self.log is None:
            return
        now = time.monotonic_ns()
        for event in found:
            if isinstance(event, events.AudioReceived | events.VideoReceived):
                stamp = read_stamp(event.payload)
                if stamp is not None:
                    self._stamped(event, stamp, now, self.log)

    def _stamped(self, event: events.Event, stamp: int, now: int, log: dict[int, int]) -> None:
        self.delays_ns.append(now - stamp)
        place = log[stamp]
        if self._last >= 0:
            self._missing += place - self._last - 1
        self._last = place

    def missing_of(self, log: dict[int, int]) -> int:
        """Messages that did not come, from the first that came while it measured to the last of the log."""
        if self.log is None:
            return 0
        return self._missing + len(log) - 1 - self._last
