"""Writes what waits for players: one gathered write for each player and flush.

A flush follows the read that brought the media, after everything else that the event loop had ready (`flush_ms` 0), or
a timer that gathers for `flush_ms`. A player whose write buffer is full is passed over; its messages wait in its own
queue, where its policy can drop them, until `resume_writing`.
"""

import asyncio
from typing import Protocol


class Flushable(Protocol):
    def flush(self) -> None: ...

    def broken(self, error: Exception) -> None:
        """`flush` raised this."""


def flush_one(player: Flushable) -> None:
    """A fault of our own ends this player only."""
    try:
        player.flush()
    except Exception as error:
        player.broken(error)


class Flusher:
    """The players that have something to be written."""

    def __init__(self, loop: asyncio.AbstractEventLoop, flush_ms: int) -> None:
        self._loop = loop
        self._delay_s = flush_ms / 1000
        self._dirty: list[Flushable] = []
        self._handle: asyncio.Handle | None = None

    def mark(self, player: Flushable) -> None:
        """The player's queue went from empty to not empty."""
        self._dirty.append(player)
        if self._handle is None:
            if self._delay_s:
                self._handle = self._loop.call_later(self._delay_s, self.flush)
            else:
                self._handle = self._loop.call_soon(self.flush)

    def flush(self) -> None:
        dirty, self._dirty, self._handle = self._dirty, [], None
        for player in dirty:
            flush_one(player)

    def close(self) -> None:
        if self._handle:
            self._handle.cancel()
        self._dirty.clear()
