"""A file's time: its timestamps as milliseconds that go on, where they wrap and where an encoder began again."""

from typing import Final

from ingest.rtmp.timestamps import difference

BACK_MS: Final = 3000
"""A step back over this is an encoder that began again; smaller ones are audio and video that are interleaved."""


class Clock:
    """Counts from the first tag of audio or video, which is 0 by the format (annex E.4.1) and need not be."""

    __slots__ = ("first", "now", "timestamp")

    def __init__(self) -> None:
        self.first: int | None = None
        """The first timestamp."""
        self.timestamp = 0
        """The latest."""
        self.now = 0
        """ms."""

    def at(self, timestamp: int) -> int:
        """The time of the next tag in the file, ms; may be below 0 where the first one was not the earliest."""
        if self.first is None:
            self.first = self.timestamp = timestamp
        step = difference(timestamp, self.timestamp)
        self.timestamp = timestamp
        if step >= -BACK_MS:
            self.now += step
        return self.now
