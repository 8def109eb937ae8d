"""What a process that serves RTMP sets for itself, once it has loaded all that it needs, and what it takes."""

import asyncio
import concurrent.futures.thread  # noqa: F401 - run_in_executor loads it, at a time when no file may be left for that.
import errno
import gc
import os
import resource
import sys
import time
from contextlib import suppress
from typing import Final

from ingest.contracts import ProcessFigures

SWITCH_INTERVAL_S = 0.0005
"""How long another thread may keep the interpreter while the event loop waits for it.

The loop needs it back for each callback; with Python's own 5 ms one busy thread (a query, a page) makes media wait for
tens of milliseconds.
"""


def favour_the_loop() -> None:
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


def make_room_for(connections: int) -> bool:
    """Raises this process's limit of open files as far as so many connections need, with a file for each that is
    recorded or played. False: it may not go so far that there could be so many connections.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(2 * connections, connections_possible()) + OTHER_FILES
    if soft not in (resource.RLIM_INFINITY, hard) and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return connections <= connections_possible()


# --- What it takes ---

LOOK_S: Final = 2.0
"""Between two looks at it."""

BEGAN: Final = time.time()
"""When this was loaded: about the process's own start."""


class ProcessWatch:
    """The process's figures. They are read on a thread: counting open files takes a while on older kernels."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._due = 0.0
        self._found = _look()
        self._looking: asyncio.Future[ProcessFigures] | None = None

    def figures(self) -> ProcessFigures:
        """As of the latest look; from time to time this begins another. To be asked once a second or so."""
        now = self._loop.time()
        if self._looking is None and now >= self._due:
            self._due = now + LOOK_S
            self._looking = self._loop.run_in_executor(None, _look)
            self._looking.add_done_callback(self._looked)
        return {**self._found, "cpu_s": round(time.process_time(), 3)}

    def _looked(self, looking: "asyncio.Future[ProcessFigures]") -> None:
        self._looking = None
        if not looking.cancelled() and looking.exception() is None:
            self._found = looking.result()


def _look() -> ProcessFigures:
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
