"""What a process that serves RTMP sets for itself, once it has loaded all that it needs."""

import gc
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
