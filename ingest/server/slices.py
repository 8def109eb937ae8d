"""Work that many clients ask for at once, done in order: some milliseconds of it in a turn of the loop."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

SLICE_S: Final = 0.004
"""Of each turn: media and all else go on between two slices."""

MOST_WAITING: Final = 1000
"""Pieces of work. Some are messages that came, so what they take is bounded by this; beyond, the oldest is done."""


class Slices:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[tuple[object, Callable[[], None]]] = deque()
        self._next: asyncio.Handle | None = None
        self._ends = 0.0
        """When this slice ends."""

    def do(self, owner: object, work: Callable[[], None]) -> None:
        """At once if there is time and nothing waits."""
        if self._next is None:
            self._begin()
        if not self._waiting and self._loop.time() < self._ends:
            work()
            return
        while len(self._waiting) >= MOST_WAITING:
            self._do_one()
        self._waiting.append((owner, work))

    def finish(self, owner: object) -> None:
        """Do at once what waits of this one."""
        found = [work for each, work in self._waiting if each is owner]
        if found:
            self._waiting = deque(piece for piece in self._waiting if piece[0] is not owner)
            for work in found:
                work()

    def forget(self, owner: object) -> None:
        """Nothing that waits of this one is done."""
        self._waiting = deque(piece for piece in self._waiting if piece[0] is not owner)

    def close(self) -> None:
        """Nothing that waits is done."""
        self._waiting.clear()
        if self._next:
            self._next.cancel()

    def _begin(self) -> None:
        self._ends = self._loop.time() + SLICE_S
        self._next = self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._next = None
        if self._waiting:
            self._begin()
        while self._waiting and self._loop.time() < self._ends:
            self._do_one()

    def _do_one(self) -> None:
        _, work = self._waiting.popleft()
        work()
