"""How long processes, and this one, stood still for want of a processor: what came that much later came in time."""

import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Self

from tests.production.waits import waited_s

EACH_S = 0.2
"""Between two looks."""
LATE_S = 0.2
"""A look that is later than this tells of a machine that stood still, which the kernel does not count."""

OWN, MACHINE = "this process", "the machine"


class Stalls:
    """Looks on in a thread while the block runs. `pids`: by what a process is called here."""

    def __init__(self, pids: Callable[[], Mapping[str, int]]) -> None:
        self._pids = pids
        self._looks: list[tuple[float, dict[str, float]]] = [(time.time(), {})]
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look_on, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._done.set()
        self._thread.join()

    def between(self, begin: float, end: float, *names: str) -> float:
        """What these processes, this one and the machine stood still then, in seconds, all together."""
        former = next(waited for at, waited in reversed(self._looks) if at <= begin or waited == {})
        later = next((waited for at, waited in self._looks if at >= end), self._looks[-1][1])
        return sum(max(0.0, later.get(name, 0.0) - former.get(name, 0.0)) for name in (*names, OWN, MACHINE))

    def _look_on(self) -> None:
        machine_s = 0.0
        while not self._done.wait(EACH_S):
            at, waited = self._looks[-1]
            late_s = time.time() - at - EACH_S
            machine_s += late_s if late_s > LATE_S else 0.0
            found = {**waited, MACHINE: machine_s}
            for name, pid in {**self._pids(), OWN: os.getpid()}.items():
                try:
                    found[name] = waited_s(pid)
                except OSError:  # It has ended: what it waited stays as it was.
                    continue
            self._looks.append((time.time(), found))
