"""RTMP's timestamps of a run: 32 bits of milliseconds, which wrap, and which a publisher may let jump."""

from collections import deque
from typing import Final

from ingest.hls.frames import Key
from ingest.hls.settings import HlsSettings

MASK: Final = 0xFFFF_FFFF
HALF: Final = 1 << 31
MINUTE_S: Final = 60.0


class Timestamps:
    def __init__(self, settings: HlsSettings) -> None:
        self._settings = settings
        self._latest: int | None = None
        """The newest of all tracks, unwrapped."""
        self._last: dict[Key, int] = {}

    @property
    def tracks(self) -> set[Key]:
        """Of which something came."""
        return set(self._last)

    def __contains__(self, key: Key) -> bool:
        return key in self._last

    def unwrapped(self, timestamp: int) -> int:
        if self._latest is None:
            return timestamp
        return self._latest + ((timestamp - self._latest + HALF) & MASK) - HALF

    def beside(self, timestamp: int) -> int:
        """Of what is no frame, unwrapped: one that is far from all that came makes no sense, and is that of now."""
        time_ms = self.unwrapped(timestamp)
        if self._latest is None or abs(time_ms - self._latest) <= self._settings.jump_ms:
            return time_ms
        return self._latest

    def is_jump(self, key: Key, time_ms: int, longest_ms: int | None) -> bool:
        """`longest_ms`: how long a frame of the track can be, if there is a limit."""
        if self._latest is None:
            return False
        last = self._last.get(key)
        if last is None:
            return abs(time_ms - self._latest) > self._settings.jump_ms
        is_over = longest_ms is not None and time_ms - last > longest_ms
        is_back = time_ms < last - self._settings.reorder_ms
        return is_over or is_back or time_ms > self._latest + self._settings.jump_ms

    def take(self, key: Key, time_ms: int) -> None:
        self._latest = time_ms if self._latest is None else max(self._latest, time_ms)
        self._last[key] = time_ms


class Breaks:
    """How often a publisher has broken off the timeline of late."""

    def __init__(self, most: int) -> None:
        """`most`: within a minute."""
        self._most = most
        self._at: deque[float] = deque()

    def may(self, wall: float) -> bool:
        """Whether it may now; then it has."""
        while self._at and wall - self._at[0] > MINUTE_S:
            self._at.popleft()
        if len(self._at) >= self._most:
            return False
        self._at.append(wall)
        return True
