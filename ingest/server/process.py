"""What a process that serves RTMP sets for itself, once it has loaded all that it needs."""

import gc
import resource
import sys

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
    """Raises this process's limit of open files as far as so many connections need. False: it may not go so far."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(connections, connections_possible()) + OTHER_FILES
    if soft not in (resource.RLIM_INFINITY, hard) and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return connections <= connections_possible()
