"""The few threads in which all of a node's recordings are written; others of their kind read them."""

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

logger = logging.getLogger(__name__)

Job = Callable[[], object]

NAME: Final = "rtmpweb-recording"


class Writers:
    """Runs jobs in the order in which they come. The threads start with the first ones.

    They are daemons, unlike those of an executor: a disk that hangs does not hold up the end of the process.
    """

    def __init__(self, most: int, name: str = NAME) -> None:
        self._most = most
        self._name = name
        self._jobs: SimpleQueue[Job] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def submit(self, job: Job) -> None:
        """`job` may take as long as the disk does, and raises nothing."""
        self._jobs.put(job)
        if len(self._threads) < self._most:
            thread = threading.Thread(target=self._run, name=f"{self._name}-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def close(self) -> None:
        """The threads end after the jobs that they have."""
        for _ in self._threads:
            self._jobs.put(_end)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not _end:
            try:
                job()
            except Exception:
                logger.exception("A job of recording failed")


def _end() -> None:
    """Stands for the end of a thread."""
