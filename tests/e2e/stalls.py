"""How long processes, and the machine, stood still for want of a processor: what came that much later came in time."""

import time
from collections.abc import Callable, Mapping
from threading import Event, Thread
from typing import NamedTuple, Self

from tests.production.waits import thread_waited_s, threads_waited_s
from tests.server_process import wait_for

EACH_S = 0.2
"""Between two looks."""
LATE_S = 0.2
"""A look that is so late, but for what it waited itself, tells of a machine that stood still: no kernel counts it."""


class Look(NamedTuple):
    at: float
    machine_s: float
    """What the machine has stood still as a whole."""
    waited_s: Mapping[str, Mapping[str, float]]
    """Of each thread of each process: how long it was ready to run and others had the processors."""


class Stalls:
    """Looks on in a thread while the block runs. `pids`: by what a process is called here."""

    def __init__(self, pids: Callable[[], Mapping[str, int]]) -> None:
        self._pids = pids
        self._looks: list[Look] = []
        self._done = Event()
        self._thread = Thread(target=self._look_on, daemon=True)

    def __enter__(self) -> Self:
        self._looks.append(self._look(Look(0.0, 0.0, {})))
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._done.set()
        self._thread.join()

    def between(self, begin: float, end: float, *names: str) -> float:
        """What these processes stood still then, one after the other, or the machine did as a whole, in seconds.

        Of a process it is what one of its threads waited at most: others that waited meanwhile delayed nothing more.
        """
        later = wait_for(
            lambda: next((look for look in self._looks if look.at >= end), None), timeout_s=30, what="a look after it"
        )
        former = next((look for look in reversed(self._looks) if look.at <= begin), self._looks[0])
        waited_s = 0.0
        for name in names:
            known, found = (look.waited_s.get(name, {}) for look in (former, later))
            waited_s += max((waited - known.get(thread, 0.0) for thread, waited in found.items()), default=0.0)
        return max(later.machine_s - former.machine_s, waited_s)

    def _look_on(self) -> None:
        own_s = thread_waited_s()
        while not self._done.wait(EACH_S):
            late_s = time.time() - self._looks[-1].at - EACH_S - (thread_waited_s() - own_s)
            self._looks.append(self._look(self._looks[-1], late_s if late_s > LATE_S else 0.0))
            own_s = thread_waited_s()

    def _look(self, former: Look, late_s: float = 0.0) -> Look:
        found = {name: threads_waited_s(pid) for name, pid in self._pids().items()}
        waited_s = {**former.waited_s, **{name: threads for name, threads in found.items() if threads}}
        return Look(time.time(), former.machine_s + late_s, waited_s)
