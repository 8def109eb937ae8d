"""A disk: what survives a loss of power, and how much is free, for those who must not wait for it.

A network's disk may answer never: `DiskSpace` asks on a thread of its own. Spark's workers get `sync` by value."""

import os
import shutil
import threading
from pathlib import Path
from typing import Final

from ingest.thread_pool import ThreadPool


def sync(path: Path) -> None:
    """Waits until the disk holds the file's bytes, or the folder's names. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


OLD_S: Final = 5.0
"""A disk that owes an answer for longer hangs, and what it said before is not told any more."""


class DiskSpace:
    """Of the disk that has `folder`. It is asked on a thread of its own, which doesn't hold up the process's end.

    `now` is monotonic, in seconds.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._free_percent: float | None = None
        self._asked: float | None = None
        """When it was asked what it has not answered yet."""
        self._has_answered = threading.Event()
        self._thread = ThreadPool(1, "disk")

    def free_percent(self, now: float) -> float | None:
        """What it said when it was asked last; None: nothing, or it hangs."""
        return self._free_percent if self.hangs_s(now) < OLD_S else None

    def hangs_s(self, now: float) -> float:
        """For how long it has owed an answer."""
        asked = self._asked
        return 0.0 if asked is None else max(now - asked, 0.0)

    def ask(self, now: float) -> None:
        """Unless it owes an answer: there is one question at a time."""
        if self._asked is None:
            self._asked = now
            self._has_answered.clear()
            self._thread.submit(self._look)

    def wait(self, timeout_s: float) -> None:
        self._has_answered.wait(timeout_s)

    def close(self) -> None:
        """The thread ends once the disk lets it."""
        self._thread.close()

    def _look(self) -> None:
        self._free_percent = _free_percent(self._folder)
        self._asked = None
        self._has_answered.set()


def _free_percent(folder: Path) -> float | None:
    """None where there is no such folder."""
    try:
        usage = shutil.disk_usage(folder)
    except OSError:
        return None
    return usage.free / usage.total * 100 if usage.total else None
