"""One player's read-ahead: what it wants next is fetched by a thread while it sends what it has."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ingest.server.recorded.library import Library
from ingest.server.recorded.span import Span
from ingest.server.recorded.tape import Batch, Leaf, Tape

BEGIN_S: Final = 0.05
"""Between two beginnings: a client that seeks without end gets the last of its wishes, so many times a second."""


class Feed:
    """At most one job is under way. What comes of one that is no longer wanted is forgotten.

    `take` is called with each batch that was asked for, `fail` once, instead of it, with why there is none.
    """

    def __init__(
        self,
        library: Library,
        path: Path,
        take: Callable[[Batch], None],
        fail: Callable[[Exception], None],
        *,
        takes: int,
    ) -> None:
        """`takes`: which messages the player understands beside plain ones, as flags of CapsEx."""
        self.leaf: Leaf | None = None
        """Not before the first batch."""
        self.waiting_since: float | None = None
        """While a batch is to come: since when."""
        self._library = library
        self._loop = library.loop
        self._path = path
        self._take = take
        self._fail = fail
        self._takes = takes
        self._tape: Tape | None = None
        self._span: Span | None = None
        """Where to begin anew, once that can be."""
        self._is_busy = False
        self._is_closed = False
        self._began = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, span: Span) -> None:
        """Fetch the first batch of the span, in place of all that is under way."""
        self._span = span
        self.waiting_since = self._loop.time()
        self._go_on()

    def more(self) -> None:
        """Fetch the next batch, unless one is to come anyway."""
        if self.waiting_since is None:
            self.waiting_since = self._loop.time()
            self._go_on()

    def close(self) -> None:
        self._is_closed = True
        if self._timer:
            self._timer.cancel()
        if self._tape:
            self._library.submit(self._tape.close)
            self._tape = None

    def _go_on(self) -> None:
        if self._is_busy or self._is_closed or self._timer:
            return
        if self.leaf is None:
            self._is_busy = True
            self._library.look_up(self._path, self._looked_up)
        elif self._tape is None:
            self._run_open(self.leaf)
        elif self._span is not None:
            wait_s = self._began + BEGIN_S - self._loop.time()
            if wait_s > 0:
                self._timer = self._loop.call_later(wait_s, self._is_time)
            else:
                self._began = self._loop.time()
                tape, span, self._span = self._tape, self._span, None
                self._run(lambda: tape.begin(span))
        elif self.waiting_since is not None:
            self._run(self._tape.read)

    def _is_time(self) -> None:
        self._timer = None
        self._go_on()

    def _looked_up(self, found: Leaf | Exception) -> None:
        self._is_busy = False
        if isinstance(found, Leaf):
            self.leaf = found
            self._go_on()
        else:
            self._failed(found)

    def _run_open(self, leaf: Leaf) -> None:
        def open_tape() -> Tape | None:
            """None where the player has gone while this waited for a thread."""
            return None if self._is_closed else Tape(self._path, leaf, self._library.limits, self._takes)

        self._is_busy = True
        self._library.run(open_tape, self._opened)

    def _opened(self, found: Tape | Exception | None) -> None:
        self._is_busy = False
        if found is None:
            return
        if isinstance(found, Exception):
            self._failed(found)
        elif self._is_closed:
            self._library.submit(found.close)
        else:
            self._tape = found
            self._go_on()

    def _run(self, job: Callable[[], Batch]) -> None:
        self._is_busy = True
        self._library.run(job, self._came)

    def _came(self, found: Batch | Exception) -> None:
        self._is_busy = False
        if self._span is not None:  # No longer wanted.
            self._go_on()
        elif isinstance(found, Exception):
            self._failed(found)
        elif not self._is_closed:
            self.waiting_since = None
            self._take(found)

    def _failed(self, error: Exception) -> None:
        if not self._is_closed:
            self.waiting_since = None
            self._fail(error)
