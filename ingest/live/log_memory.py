"""What the logs of a node's streams hold together, and who gives way when that is too much."""

from operator import itemgetter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ingest.live.stream_log import StreamLog

SPARE: Final = 8
"""One part in so many of the node's memory is made free at once, so that room is not looked for with each message."""


class LogMemory:
    """Over the bound larger logs give way to smaller ones: their late players wait for the next keyframe, and many
    small streams have theirs at once.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.held_bytes = 0
        self.dropped = 0
        """Groups of pictures that gave way, since the node began."""
        self._held: dict[StreamLog, int] = {}

    def hold(self, log: "StreamLog", size_bytes: int) -> None:
        self.held_bytes += size_bytes - self._held.pop(log, 0)
        if size_bytes:
            self._held[log] = size_bytes

    def fits(self, log: "StreamLog", size_bytes: int) -> bool:
        return self._left(log, size_bytes) >= 0

    def make_room(self, log: "StreamLog", size_bytes: int) -> bool:
        """Have larger ones give way for the log to hold so much. False: they are too few, and it gives way itself."""
        left = self._left(log, size_bytes)
        if left >= 0:
            return True
        larger = [(held, each) for each, held in self._held.items() if held > size_bytes and each is not log]
        if left + sum(held for held, _ in larger) < 0:
            self.dropped += 1
            return False
        for held, each in sorted(larger, key=itemgetter(0), reverse=True):
            if left >= self.most_bytes // SPARE:
                break
            self.dropped += 1
            each.forget()
            left += held - self._held.get(each, 0)
        return True

    def _left(self, log: "StreamLog", size_bytes: int) -> int:
        return self.most_bytes - self.held_bytes + self._held.get(log, 0) - size_bytes
