"""The threads that read recordings for all players of a node, what is known of each file, and a player's read-ahead.

What a player wants next is fetched by a thread while it sends what it has.

A file is looked at once for all who ask for it at the same time, and again when it has changed: once in GROWING_S while
it is being written, and then at what was added. Looking may mean to read all of a long file, so it has threads of its
own, which leave most of the time to the event loop: those that feed players don't wait for it."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from ingest.mp4.heads import Heads
from ingest.rtmp.limits import Limits
from ingest.server.config import Mp4Settings
from ingest.server.vod.flv_source import Batch, FlvSource, RecordingInfo, Span, read_info
from ingest.server.vod.mp4 import Mp4Shelf
from ingest.thread_pool import ThreadPool

T = TypeVar("T")

READING_THREADS: Final = 4
SCANNING_THREADS: Final = 2
GROWING_S: Final = 1.0
"""Players that come until then are told the length that a growing file had; they are sent what it has."""
MAX_INFOS: Final = 64
"""Files of which is kept what is known; a megabyte each at most."""


class Library:
    """One for each server. Its threads begin with the first recording that is played."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limits: Limits, mp4: Mp4Settings) -> None:
        self.limits = limits
        self.sent_bytes = 0
        self.loop = loop
        self._reading = ThreadPool(READING_THREADS, "playing")
        self._scanning = ThreadPool(SCANNING_THREADS, "looking")
        self._infos: OrderedDict[Path, RecordingInfo] = OrderedDict()
        self._asked: dict[Path, asyncio.Future[RecordingInfo]] = {}
        heads = Heads(mp4.folder, mp4.kept_bytes, mp4.kept_files) if mp4.folder is not None else None
        self.mp4 = Mp4Shelf(self, heads, mp4.limits, mp4.unnamed)

    async def lookup(self, path: Path) -> RecordingInfo:
        """What is known of the file, as it is now. OSError, FlvError: it can't be played."""
        future = self._asked.get(path)
        if future is None:
            known = self._infos.get(path)
            job = partial(read_info, path, known, self.limits, fresh_s=GROWING_S)
            future = self._asked[path] = self._scanning.run(job, self.loop)
            future.add_done_callback(partial(self._known, path))
        return await asyncio.shield(future)

    def run(self, job: Callable[[], T]) -> "asyncio.Future[T]":
        return self._reading.run(job, self.loop)

    def scan(self, job: Callable[[], T]) -> "asyncio.Future[T]":
        """The same for what may take long."""
        return self._scanning.run(job, self.loop)

    def submit(self, job: Callable[[], object]) -> None:
        """The same for one whose outcome nobody waits for."""
        self._reading.submit(job)

    def close(self) -> None:
        """No more is asked for. What the threads have still to do, they do."""
        self._reading.close()
        self._scanning.close()
        self.mp4.close()

    def _known(self, path: Path, found: "asyncio.Future[RecordingInfo]") -> None:
        del self._asked[path]
        self._infos.pop(path, None)
        if not found.cancelled() and found.exception() is None:
            self._infos[path] = found.result()
            if len(self._infos) > MAX_INFOS:
                self._infos.popitem(last=False)


BEGIN_S: Final = 0.05
"""Between two beginnings: a client that seeks without end gets the last of its wishes, so many times a second."""


@dataclass(eq=False, repr=False)
class ReadAhead:
    """At most one job is under way. What comes of one that is no longer wanted is forgotten.

    `take` is called with each batch that was asked for, or with why there is none.
    """

    _library: Library
    _path: Path
    _take: Callable[[Batch | Exception], None]
    takes: int
    """Which messages the player understands beside plain ones, as flags of CapsEx."""
    info: RecordingInfo | None = None
    """Not before the first batch."""
    waiting_since: float | None = None
    """While a batch is to come: since when."""
    _span: Span | None = None
    """Where to begin anew, once that can be."""
    _wanted: asyncio.Event = field(default_factory=asyncio.Event)
    _is_closed: bool = False
    _task: asyncio.Task[None] | None = None

    def begin(self, span: Span) -> None:
        """Fetch the first batch of the span, in place of all that is under way."""
        self._span = span
        self._want()
        if self._task is None:
            self._task = self._library.loop.create_task(self._run())

    def more(self) -> None:
        """Fetch the next batch, unless one is to come anyway."""
        if self.waiting_since is None:
            self._want()

    def close(self) -> None:
        """The file is closed as well, once no thread reads it, or hangs in it."""
        self._is_closed = True
        self._wanted.set()

    def _want(self) -> None:
        self.waiting_since = self._library.loop.time()
        self._wanted.set()

    async def _run(self) -> None:
        try:
            self.info = await self._library.lookup(self._path)
            source = await self._library.run(partial(self._open, self.info))
        except Exception as error:
            self._put(error)
            return
        if source is None:
            return
        try:
            await self._fetch(source)
        finally:
            self._library.submit(source.close)

    async def _fetch(self, source: FlvSource) -> None:
        began = 0.0
        while not self._is_closed:
            job: Callable[[], Batch] = source.read
            if self._span is not None:
                await asyncio.sleep(began + BEGIN_S - self._library.loop.time())
                began = self._library.loop.time()
                job, self._span = partial(source.begin, self._span), None
            self._wanted.clear()
            try:
                found: Batch | Exception = await self._library.run(job)
            except Exception as error:
                found = error
            if self._span is None:  # Else it is no longer wanted.
                self._put(found)
            if not self._is_closed:
                await self._wanted.wait()

    def _open(self, info: RecordingInfo) -> FlvSource | None:
        """None where the player has gone while this waited for a thread."""
        return None if self._is_closed else FlvSource(self._path, info, self._library.limits, self.takes)

    def _put(self, found: Batch | Exception) -> None:
        if not self._is_closed:
            self.waiting_since = None
            self._take(found)
