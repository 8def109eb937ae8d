"""When what came is given to players: one write for each player and flush.

A flush follows the read that brought a frame of video, after everything else that the event loop had ready; sound and
data ride along with it, or wait for AUDIO_S at most. With `flush_ms` a timer gathers all for so long instead. A player
whose write buffer is full is passed over; its messages wait in its own queue, where its policy can drop them, until
`resume_writing`.
"""

import asyncio
import logging
from typing import Final, Protocol

from ingest.live import LiveStream

logger = logging.getLogger(__name__)

AUDIO_S: Final = 0.035
"""A little more than between two frames of 30 a second."""


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
    """The streams that have something to deliver, and the players that have something in their queues."""

    def __init__(self, loop: asyncio.AbstractEventLoop, flush_ms: int) -> None:
        self._loop = loop
        self._flush_s = flush_ms / 1000
        self._streams: dict[LiveStream, None] = {}
        self._later: dict[LiveStream, None] = {}
        self._players: list[Flushable] = []
        self._handle: asyncio.Handle | None = None
        self._timer: asyncio.Handle | None = None

    def wake(self, stream: LiveStream, is_urgent: bool) -> None:
        """The stream has something to deliver: see `live.stream.Wake`."""
        if is_urgent or self._flush_s:
            if self._later:
                self._no_later(stream)
            self._streams[stream] = None
            self._schedule()
        else:
            self._later[stream] = None
            if self._timer is None:
                self._timer = self._loop.call_later(AUDIO_S, self._deliver_later)

    def _no_later(self, stream: LiveStream) -> None:
        self._later.pop(stream, None)
        if not self._later and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def mark(self, player: Flushable) -> None:
        """The player's queue went from empty to not empty."""
        self._players.append(player)
        self._schedule()

    def _schedule(self) -> None:
        if self._handle is None:
            if self._flush_s:
                self._handle = self._loop.call_later(self._flush_s, self.flush)
            else:
                self._handle = self._loop.call_soon(self.flush)

    def _deliver_later(self) -> None:
        self._timer = None
        later, self._later = self._later, {}
        self._streams.update(later)
        if self._handle is not None:
            self._handle.cancel()
        self.flush()

    def flush(self) -> None:
        streams, self._streams = self._streams, {}
        for stream in streams:
            try:
                stream.deliver()
            except Exception:  # Our own fault: the others go on.
                logger.exception("What %s has sent could not be delivered", stream.path)
        players, self._players, self._handle = self._players, [], None
        for player in players:
            flush_one(player)

    def close(self) -> None:
        for handle in (self._handle, self._timer):
            if handle:
                handle.cancel()
        self._streams.clear()
        self._later.clear()
        self._players.clear()
