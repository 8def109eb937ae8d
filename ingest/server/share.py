"""How much of the interpreter a thread takes that only computes: looking a long file through must not keep the loop."""

import time
from typing import Final

WORK_S: Final = 0.0005
"""Between two rests, about."""
RESTS: Final = 2
"""As many times as long as it has worked it rests."""


class Share:
    """Called now and then by the thread, which sleeps in it when it is time to."""

    def __init__(self) -> None:
        self._worked = time.thread_time()

    def __call__(self) -> None:
        worked_s = time.thread_time() - self._worked
        if worked_s >= WORK_S:
            time.sleep(worked_s * RESTS)
            self._worked = time.thread_time()
