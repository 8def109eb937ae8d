"""The threads that read recordings for all players of a node, what is known of each file, and a player's read-ahead.

What a player wants next is fetched by a thread while it sends what it has.

A file is looked at once for all who ask for it at the same time, and again when it has changed: once in GROWING_S while
it is being written, and then at what was added. Looking may mean to read all of a long file, so it has threads of its
own, which leave most of the time to the event loop: those that feed players don't wait for it."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from ingest.rtmp.limits import Limits
from ingest.server.process import ThreadPool
from ingest.server.vod.flv_source import Batch, FlvSource, RecordingInfo, Span, read_info

logger = logging.getLogger(__name__)

T = TypeVar("T")

READING_THREADS: Final = 4
SCANNING_THREADS: Final = 2
GROWING_S: Final = 1.0
"""Players that come until then are told the length that a growing file had; they are sent what it has."""
MAX_INFOS: Final = 64
"""Files of which is kept what is known; a megabyte each at most."""

Done = Callable[[T | Exception], None]
"""Called in the event loop with what came of it."""


class Library:
    """One for each server. Its threads begin with the first recording that is played."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limits: Limits) -> None:
        self.limits = limits
        self.sent_bytes = 0
        self.loop = loop
        self._reading = ThreadPool(READING_THREADS, "rtmpweb-playing")
        self._scanning = ThreadPool(SCANNING_THREADS, "rtmpweb-looking")
        self._infos: OrderedDict[Path, RecordingInfo] = OrderedDict()
        self._asked: dict[Path, list[Done[RecordingInfo]]] = {}
        """Who waits for what is being looked at."""

    def lookup(self, path: Path, done: Done[RecordingInfo]) -> None:
        """What is known of the file, as it is now. OSError, FlvError: it can't be played."""
        waiting = self._asked.setdefault(path, [])
        waiting.append(done)
        if len(waiting) == 1:
            known = self._infos.get(path)
            self._run(
                self._scanning,
                lambda: read_info(path, known, self.limits, fresh_s=GROWING_S),
                lambda found: self._known(path, found),
            )

    def run(self, job: Callable[[], T], done: Done[T]) -> None:
        self._run(self._reading, job, done)

    def submit(self, job: Callable[[], object]) -> None:
        """The same for one whose outcome nobody waits for."""
        self._reading.submit(job)

    def close(self) -> None:
        """No more is asked for. What the threads have still to do, they do."""
        self._reading.close()
        self._scanning.close()

    def _known(self, path: Path, found: RecordingInfo | Exception) -> None:
        self._infos.pop(path, None)
        if isinstance(found, RecordingInfo):
            self._infos[path] = found
            if len(self._infos) > MAX_INFOS:
                self._infos.popitem(last=False)
        for done in self._asked.pop(path):
            done(found)

    def _run(self, threads: ThreadPool, job: Callable[[], T], done: Done[T]) -> None:
        def work() -> None:
            outcome: T | Exception
            try:
                outcome = job()
            except Exception as error:
                outcome = error
            with suppress(RuntimeError):  # The loop is closed: nobody waits any more.
                self.loop.call_soon_threadsafe(done, outcome)

        threads.submit(work)


BEGIN_S: Final = 0.05
"""Between two beginnings: a client that seeks without end gets the last of its wishes, so many times a second."""


class ReadAhead:
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
        self.info: RecordingInfo | None = None
        """Not before the first batch."""
        self.waiting_since: float | None = None
        """While a batch is to come: since when."""
        self._library = library
        self._loop = library.loop
        self._path = path
        self._take = take
        self._fail = fail
        self._takes = takes
        self._source: FlvSource | None = None
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
        self._next()

    def more(self) -> None:
        """Fetch the next batch, unless one is to come anyway."""
        if self.waiting_since is None:
            self.waiting_since = self._loop.time()
            self._next()

    def close(self) -> None:
        self._is_closed = True
        if self._timer:
            self._timer.cancel()
        if self._source:
            self._library.submit(self._source.close)
            self._source = None

    def _next(self) -> None:
        if self._is_busy or self._is_closed or self._timer:
            return
        if self.info is None:
            self._is_busy = True
            self._library.lookup(self._path, self._found)
        elif self._source is None:
            self._run_open(self.info)
        elif self._span is not None:
            wait_s = self._began + BEGIN_S - self._loop.time()
            if wait_s > 0:
                self._timer = self._loop.call_later(wait_s, self._is_time)
            else:
                self._began = self._loop.time()
                source, span, self._span = self._source, self._span, None
                self._run(lambda: source.begin(span))
        elif self.waiting_since is not None:
            self._run(self._source.read)

    def _is_time(self) -> None:
        self._timer = None
        self._next()

    def _found(self, found: RecordingInfo | Exception) -> None:
        self._is_busy = False
        if isinstance(found, RecordingInfo):
            self.info = found
            self._next()
        else:
            self._failed(found)

    def _run_open(self, info: RecordingInfo) -> None:
        def open_source() -> FlvSource | None:
            """None where the player has gone while this waited for a thread."""
            return None if self._is_closed else FlvSource(self._path, info, self._library.limits, self._takes)

        self._is_busy = True
        self._library.run(open_source, self._opened)

    def _opened(self, found: FlvSource | Exception | None) -> None:
        self._is_busy = False
        if found is None:
            return
        if isinstance(found, Exception):
            self._failed(found)
        elif self._is_closed:
            self._library.submit(found.close)
        else:
            self._source = found
            self._next()

    def _run(self, job: Callable[[], Batch]) -> None:
        self._is_busy = True
        self._library.run(job, self._fetched)

    def _fetched(self, found: Batch | Exception) -> None:
        self._is_busy = False
        if self._span is not None:  # No longer wanted.
            self._next()
        elif isinstance(found, Exception):
            self._failed(found)
        elif not self._is_closed:
            self.waiting_since = None
            self._take(found)

    def _failed(self, error: Exception) -> None:
        if not self._is_closed:
            self.waiting_since = None
            self._fail(error)
