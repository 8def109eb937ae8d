"""What a process that serves RTMP sets for itself, how its event loop fares, and what is kept from holding that up.

What many clients ask for at once is done in `TimeSlices`, some milliseconds in a turn of the loop; what blocks goes to
threads (`ingest/thread_pool.py`)."""

import asyncio
import concurrent.futures.thread  # noqa: F401 - run_in_executor loads it, at a time when no file may be left for that.
import errno
import gc
import os
import resource
import sys
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from ingest.contracts import LoopDelays, ProcessFigures

BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class LoopDelay:
    """Told of each delay, some a second."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_S) + 1)
        self._sum_s = 0.0
        self._most_s = 0.0

    def add(self, late_s: float) -> None:
        late_s = max(0.0, late_s)  # A timer may fire within the clock's resolution before its time.
        self._counts[bisect_left(BOUNDS_S, late_s)] += 1
        self._sum_s += late_s
        self._most_s = max(self._most_s, late_s)

    def take_most(self) -> float:
        """The largest since this was asked last, in seconds."""
        most_s, self._most_s = self._most_s, 0.0
        return most_s

    @property
    def figures(self) -> LoopDelays:
        return {"bounds_s": list(BOUNDS_S), "counts": list(self._counts), "sum_s": round(self._sum_s, 6)}


SLICE_S: Final = 0.004
"""Of each turn: media and all else go on between two slices."""

MOST_WAITING: Final = 1000
"""Pieces of work. Some are messages that came, so what they take is bounded by this; beyond, the oldest is done."""


class TimeSlices:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[tuple[object, Callable[[], None]]] = deque()
        self._next: asyncio.Handle | None = None
        self._ends = 0.0

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
        self._next = self._loop.call_soon(self._next_slice)

    def _next_slice(self) -> None:
        self._next = None
        if self._waiting:
            self._begin()
        while self._waiting and self._loop.time() < self._ends:
            self._do_one()

    def _do_one(self) -> None:
        _, work = self._waiting.popleft()
        work()


SWITCH_INTERVAL_S = 0.0005
"""How long another thread may keep the interpreter while the event loop waits for it.

The loop needs it back for each callback; with Python's own 5 ms one busy thread (a query, a page) makes media wait for
tens of milliseconds.
"""


def tune_for_event_loop() -> None:
    """Lets the event loop's thread run soon, and spares the collector what lives as long as the process."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.collect()
    gc.freeze()


OTHER_FILES = 200
"""Open files beside the connections: libraries, databases, the spool, the event loop's own."""


def connections_possible() -> int:
    """How many connections the hard limit of open files (RLIMIT_NOFILE) leaves room for."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return sys.maxsize if hard == resource.RLIM_INFINITY else max(0, hard - OTHER_FILES)


def raise_open_file_limit(connections: int) -> bool:
    """Raises this process's limit of open files as far as so many connections need, with a file for each that is
    recorded or played. False: it may not go so far that there could be so many connections.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(2 * connections, connections_possible()) + OTHER_FILES
    if soft not in (resource.RLIM_INFINITY, hard) and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return connections <= connections_possible()


# --- What it takes ---

POLL_S: Final = 2.0

BEGAN: Final = time.time()
"""When this was loaded: about the process's own start."""


class ProcessWatch:
    """The process's figures. They are read on a thread: counting open files takes a while on older kernels."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._due = 0.0
        self._found = _measure()
        self._measuring: asyncio.Future[ProcessFigures] | None = None

    def figures(self) -> ProcessFigures:
        """As of the latest look; from time to time this begins another. To be asked once a second or so."""
        now = self._loop.time()
        if self._measuring is None and now >= self._due:
            self._due = now + POLL_S
            self._measuring = self._loop.run_in_executor(None, _measure)
            self._measuring.add_done_callback(self._measured)
        return {**self._found, "cpu_s": round(time.process_time(), 3)}

    def _measured(self, measuring: "asyncio.Future[ProcessFigures]") -> None:
        self._measuring = None
        if not measuring.cancelled() and measuring.exception() is None:
            self._found = measuring.result()


def _measure() -> ProcessFigures:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return {
        "started_at": BEGAN,
        "cpu_s": time.process_time(),
        "resident_bytes": _resident_bytes(),
        "open_files": open_files(most),
        "most_files": None if most == resource.RLIM_INFINITY else most,
    }


def _resident_bytes() -> int | None:
    with suppress(OSError, ValueError, IndexError), open("/proc/self/statm", "rb") as figures:
        return int(figures.read().split()[1]) * resource.getpagesize()
    return None


def open_files(most: int) -> int | None:
    """How many this process has open, of `most`. The kernel counts them (Linux 6.2), or they are listed.

    Listing needs one itself: where there is none left, all are open.
    """
    try:
        return os.stat("/proc/self/fd").st_size or len(os.listdir("/proc/self/fd"))
    except OSError as error:
        return most if error.errno in (errno.EMFILE, errno.ENFILE) else None
