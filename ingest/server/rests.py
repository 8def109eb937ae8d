"""When publishers without players are read: in pieces of `read_ms`, many connections one after the other.

A message of its own in a read of its own is what ingest costs most: the wake-up, the call of the kernel, and the way
through all that the processor's caches have forgotten meanwhile. Where nobody waits for the message, it waits in the
kernel for a few more. A publisher with players is read at once, so that nobody's delay grows; and so is one that sends
so much that its reads are large anyway.
"""

import asyncio
from collections import deque
from typing import Final, Protocol

ROUNDS: Final = 4
"""In so many groups all resting connections are read within `read_ms`: few wake-ups, and no long burst of work."""


class Resting(Protocol):
    def read_on(self) -> None: ...

    def broken(self, error: Exception) -> None:
        """`read_on` raised this."""


class Rests:
    """The connections that are not read from for a while."""

    def __init__(self, loop: asyncio.AbstractEventLoop, read_ms: int, read_buffer_bytes: int) -> None:
        self._loop = loop
        self._rest_s = read_ms / 1000
        self.most_bytes: Final = read_buffer_bytes // 4 if read_ms else 0
        """Only after a read of fewer bytes is there to be a rest."""
        self._resting: deque[tuple[float, Resting]] = deque()
        """And when each is due: all rest equally long, so the first is due first."""
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, connection: Resting) -> None:
        """`connection` is to be told to `read_on`, once."""
        self._resting.append((self._loop.time() + self._rest_s, connection))
        if self._timer is None:
            self._timer = self._loop.call_later(self._rest_s, self._wake)

    def _wake(self) -> None:
        now = self._loop.time()
        try:
            while self._resting and self._resting[0][0] <= now:
                connection = self._resting.popleft()[1]
                try:
                    connection.read_on()
                except Exception as error:
                    connection.broken(error)  # Our own fault; the others are still read.
        finally:
            self._timer = self._loop.call_later(self._rest_s / ROUNDS, self._wake) if self._resting else None

    def close(self) -> None:
        if self._timer:
            self._timer.cancel()
        self._resting.clear()
