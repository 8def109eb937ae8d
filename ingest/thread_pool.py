"""A few threads for what may block: disks, databases."""

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

logger = logging.getLogger(__name__)

Job = Callable[[], object]
T = TypeVar("T")


class ThreadPool:
    """Runs jobs in the order in which they come. The threads start with the first ones.

    They are daemons, unlike those of an executor: a disk or a database that hangs does not hold up the end of the
    process, and until that end jobs are taken.
    """

    def __init__(self, most: int, name: str) -> None:
        """`name`: what it is for."""
        self._most = most
        self._name = name
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def submit(self, job: Job) -> None:
        """`job` may take as long as a disk does, and raises nothing."""
        if not self._most:  # It is closed: who comes late, to close a file, has a thread of its own.
            threading.Thread(target=job, daemon=True).start()
            return
        self._jobs.put(job)
        if len(self._threads) < self._most:
            thread = threading.Thread(target=self._run, name=f"rtmpweb-{self._name}-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def run(self, job: Callable[[], T], loop: asyncio.AbstractEventLoop) -> "asyncio.Future[T]":
        """What comes of a job, for who awaits it in the loop."""
        outcome: asyncio.Future[T] = loop.create_future()

        def work() -> None:
            try:
                result = job()
            except Exception as error:
                settle = partial(outcome.set_exception, error)
            else:
                settle = partial(outcome.set_result, result)
            with suppress(RuntimeError):  # The loop is closed: nobody waits any more.
                loop.call_soon_threadsafe(lambda: outcome.done() or settle())

        self.submit(work)
        return outcome

    def close(self) -> None:
        """The threads end after the jobs that they have."""
        for _ in self._threads:
            self._jobs.put(None)
        self._most = 0

    def _run(self) -> None:
        while job := self._jobs.get():
            try:
                job()
            except Exception:
                logger.exception("A job of %s failed", self._name)
