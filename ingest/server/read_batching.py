"""When publishers are read: in batches, many connections one after the other.

A message of its own in a read of its own is what ingest costs most: the wake-up, the call of the kernel, and the way
through all that the processor's caches have forgotten meanwhile. Where nobody waits for the message, it waits in the
kernel for a few more. A publisher with players is read as it sends; where there are many of these, within WATCHED_MS.
One that sends so much that its reads are large anyway is in no batch. All of a batch are read with one wake-up, as the
first few pay for what was forgotten.

While it is in a batch, a connection's transport reads nothing: its socket is read from here, by one timer for all. Of
TLS that can't be done: there the timer lets the transport read once.
"""

import asyncio
import os
from typing import Final, Protocol

WATCHED_MS: Final = 10
"""How long what is played may wait to be read, ms,"""
MANY_WATCHED: Final = 8
"""where so many publishers at least have players: fewer are as cheap at once."""

PORTION: Final = 64
"""Connections that are read between two turns of the loop: about 2 ms."""


class Reader(Protocol):
    """A connection, as far as it is read."""

    read_fd: int | None
    """Its socket, unless TLS is between."""
    transport: asyncio.Transport

    def received(self, nbytes: int, now: float) -> None:
        """So many bytes are in the buffer."""

    def read_on(self) -> None:
        """It is in no batch any more."""

    def read_once(self) -> None:
        """Its transport is to read, and then to cease again."""

    def broken(self, error: Exception) -> None: ...


class ReadBatching:
    def __init__(self, loop: asyncio.AbstractEventLoop, read_ms: int, buffer: memoryview, *, fewest: int = 1) -> None:
        """`fewest`: with fewer that want to be it is not worth while."""
        self._loop = loop
        self._fewest = fewest
        self._willing: dict[Reader, None] = {}
        """Members, and those that want to be."""
        self._interval_s = read_ms / 1000
        self._buffer = buffer
        self.most_bytes: Final = len(buffer) // 2 if read_ms else 0
        """Who sends more than this between two reads is not read in batches."""
        self._members: dict[Reader, None] = {}
        self._due = 0.0
        self._left: list[Reader] = []
        """Those of this batch that are still to be read."""
        self._next: asyncio.Handle | None = None

    def takes(self, connection: Reader, nbytes: int) -> bool:
        """Whether it may join: there are enough of its kind, and it does not send too much at once. It wants to."""
        self._willing[connection] = None
        return nbytes < self.most_bytes and len(self._willing) >= self._fewest

    def join(self, connection: Reader) -> None:
        """Its transport has ceased to read."""
        self._willing[connection] = None
        self._members[connection] = None
        if self._next is None:
            self._due = self._loop.time() + self._interval_s
            self._next = self._loop.call_at(self._due, self._begin)

    def leave(self, connection: Reader) -> None:
        """It may not be there."""
        self._members.pop(connection, None)
        self._willing.pop(connection, None)

    def _begin(self) -> None:
        self._left = list(self._members)
        self._next_slice()

    def _next_slice(self) -> None:
        now, members = self._loop.time(), self._members
        portion, self._left = self._left[:PORTION], self._left[PORTION:]
        for connection in portion:
            if connection in members:
                try:
                    self._read(connection, now)
                except Exception as error:
                    connection.broken(error)  # Our own fault; the others are still read.
        if self._left:
            self._next = self._loop.call_soon(self._next_slice)
        elif members:
            self._due = max(self._due + self._interval_s, now)
            self._next = self._loop.call_at(self._due, self._begin)
        else:
            self._next = None

    def _read(self, connection: Reader, now: float) -> None:
        fd = connection.read_fd
        if connection.transport.is_closing():  # The number may be another's by now.
            self.leave(connection)
            return
        if fd is None:
            connection.read_once()
            return
        try:
            nbytes = os.readv(fd, (self._buffer,))
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            nbytes = 0
        if nbytes:
            connection.received(nbytes, now)
        if not 0 < nbytes < self.most_bytes and connection in self._members:
            # Also at the end of what it sends: its transport finds out what there is.
            self.leave(connection)
            connection.read_on()

    def close(self) -> None:
        if self._next:
            self._next.cancel()
        self._members.clear()
        self._willing.clear()
        self._left.clear()
