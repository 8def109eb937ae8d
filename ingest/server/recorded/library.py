"""The threads that read recordings for all players of a node, and what is known of each file.

A file is looked at once for all who ask for it at the same time, and again when it has changed: once in GROWING_S while
it is being written, and then at what was added. Looking may mean to read all of a long file, so it has threads of its
own, which leave most of the time to the event loop: those that feed players don't wait for it.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from ingest.rtmp.limits import Limits
from ingest.server.recorded.tape import Leaf, read_leaf
from ingest.server.recording.writers import Writers

logger = logging.getLogger(__name__)

T = TypeVar("T")

READING_THREADS: Final = 4
LOOKING_THREADS: Final = 2
GROWING_S: Final = 1.0
"""Players that come until then are told the length that a growing file had; they are sent what it has."""
MAX_LEAVES: Final = 64
"""Files of which is kept what is known; a megabyte each at most."""

Done = Callable[[T | Exception], None]
"""Called in the event loop with what came of it."""


class Library:
    """One for each server. Its threads begin with the first recording that is played."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limits: Limits) -> None:
        self.limits = limits
        self.sent_bytes = 0
        """By all players of recordings so far."""
        self.loop = loop
        self._reading = Writers(READING_THREADS, "rtmpweb-playing")
        self._looking = Writers(LOOKING_THREADS, "rtmpweb-looking")
        self._leaves: OrderedDict[Path, Leaf] = OrderedDict()
        self._asked: dict[Path, list[Done[Leaf]]] = {}
        """Who waits for what is being looked at."""

    def look_up(self, path: Path, done: Done[Leaf]) -> None:
        """What is known of the file, as it is now. OSError, FlvError: it can't be played."""
        waiting = self._asked.setdefault(path, [])
        waiting.append(done)
        if len(waiting) == 1:
            known = self._leaves.get(path)
            self._run(
                self._looking,
                lambda: read_leaf(path, known, self.limits, fresh_s=GROWING_S),
                lambda found: self._known(path, found),
            )

    def run(self, job: Callable[[], T], done: Done[T]) -> None:
        """Runs the job in one of the threads that read."""
        self._run(self._reading, job, done)

    def submit(self, job: Callable[[], object]) -> None:
        """The same for one whose outcome nobody waits for."""
        self._reading.submit(job)

    def close(self) -> None:
        """No more is asked for. What the threads have still to do, they do."""
        self._reading.close()
        self._looking.close()

    def _known(self, path: Path, found: Leaf | Exception) -> None:
        self._leaves.pop(path, None)
        if isinstance(found, Leaf):
            self._leaves[path] = found
            if len(self._leaves) > MAX_LEAVES:
                self._leaves.popitem(last=False)
        for done in self._asked.pop(path):
            done(found)

    def _run(self, threads: Writers, job: Callable[[], T], done: Done[T]) -> None:
        def work() -> None:
            outcome: T | Exception
            try:
                outcome = job()
            except Exception as error:
                outcome = error
            with suppress(RuntimeError):  # The loop is closed: nobody waits any more.
                self.loop.call_soon_threadsafe(done, outcome)

        threads.submit(work)
