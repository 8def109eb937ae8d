"""Celery's soft time limit, kept out of the start of threads.

In a pool's process it is an exception out of a signal, wherever the code is just then. Out of `Thread.start` it would
leave a thread that finds itself unknown, and prints a traceback that tells an operator nothing: py4j and PySpark start
theirs as Java starts.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNAL = signal.SIGUSR1
AGAIN_S = 0.01
"""After which it is tried again. A thread starts within much less."""


@contextmanager
def outside_thread_starts() -> Iterator[None]:
    """While the block runs, a soft time limit that comes as a thread is started comes once that has."""
    former = signal.getsignal(SIGNAL)
    if threading.current_thread() is not threading.main_thread() or not callable(former):
        yield  # Not in a pool's process: no such signal comes here.
        return
    raises = former

    def handle(number: int, frame: FrameType | None) -> None:
        if _starts_a_thread(frame):
            signal.setitimer(signal.ITIMER_REAL, AGAIN_S)
        else:
            raises(number, frame)

    formers = {number: signal.signal(number, handle) for number in (SIGNAL, signal.SIGALRM)}
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)  # What was put off was to end what has ended.
        for number, handler in formers.items():
            signal.signal(number, handler)


def _starts_a_thread(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code is threading.Thread.start.__code__:
            return True
        frame = frame.f_back
    return False
