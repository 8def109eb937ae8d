"""What came to a live stream since its last flush, as its readers are given it: each form is made once."""

from collections.abc import Callable
from functools import lru_cache

from ingest.live.log_record import FRAME, KEYFRAME, KIND, VIDEO, Span
from ingest.live.shared import SharedMessage
from ingest.live.stream_log import StreamLog


class Batch:
    """Its forms can be had only while it is delivered: its bytes are the log's."""

    __slots__ = (
        "_forms",
        "_log",
        "_messages",
        "_span",
        "audio_frames",
        "keyframes",
        "payload_bytes",
        "video_frames",
        "wire_bytes",
    )

    def __init__(self, log: StreamLog, span: Span) -> None:
        self._log = log
        self._span = span
        self._messages: list[SharedMessage] | None = None
        self._forms: dict[Form, bytes] = {}
        self.wire_bytes = span.end - span.start
        """In chunks; `payload_bytes`: of the messages themselves."""
        self.payload_bytes = self.video_frames = self.audio_frames = self.keyframes = 0
        for flags, _, _, _, size in log.records(span.first, span.stop):
            self.payload_bytes += size
            if flags & FRAME:
                if flags & KIND == VIDEO:
                    self.video_frames += 1
                    self.keyframes += flags & KEYFRAME == KEYFRAME
                else:
                    self.audio_frames += 1

    @property
    def messages(self) -> list[SharedMessage]:
        """Each by itself, for who is not sent all of them, or not now."""
        found = self._messages
        if found is None:
            found = self._messages = list(self._log.made(self._span.first, self._span.stop))
        return found

    def wire(self, stream_id: int) -> bytes:
        """All of them, in chunks, on this message stream."""
        return self._log.wire(self._span, stream_id)

    def form(self, make: "Form") -> bytes:
        """What `make` makes of it."""
        found = self._forms.get(make)
        if found is None:
            found = self._forms[make] = make(self)
        return found


Form = Callable[[Batch], bytes]
"""How some readers are sent a batch. Those of the same form are sent the same bytes."""


@lru_cache(maxsize=64)
def in_chunks(stream_id: int) -> Form:
    """For who plays on this message stream."""
    return lambda batch: batch.wire(stream_id)
