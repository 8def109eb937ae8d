"""How long processes, and the machine, stood still for want of a processor: what came that much later came in time."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple, Self

from tests.server_process import wait_for

EACH_S = 0.2
"""Between two looks."""
LATE_S = 0.2
"""A look that is so late, but for what it waited itself, tells of a machine that stood still: no kernel counts it."""


class Look(NamedTuple):
    at: float
    machine_s: float
    """What the machine has stood still as a whole."""
    waited_ns: Mapping[str, Mapping[str, int]]
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
        waited_ns = 0
        for name in names:
            known, found = (look.waited_ns.get(name, {}) for look in (former, later))
            waited_ns += max((ns - known.get(thread, 0) for thread, ns in found.items()), default=0)
        return max(later.machine_s - former.machine_s, waited_ns / 1e9)

    def _look_on(self) -> None:
        own_ns = _own_ns()
        while not self._done.wait(EACH_S):
            late_s = time.time() - self._looks[-1].at - EACH_S - (_own_ns() - own_ns) / 1e9
            self._looks.append(self._look(self._looks[-1], late_s if late_s > LATE_S else 0.0))
            own_ns = _own_ns()

    def _look(self, former: Look, late_s: float = 0.0) -> Look:
        found = {name: _waited_ns(pid) for name, pid in self._pids().items()}
        waited_ns = {**former.waited_ns, **{name: threads for name, threads in found.items() if threads}}
        return Look(time.time(), former.machine_s + late_s, waited_ns)


def _own_ns() -> int:
    """What this thread alone waited."""
    return int(Path("/proc/thread-self/schedstat").read_text().split()[1])


def _waited_ns(pid: int) -> dict[str, int]:
    """By thread; none in a process that has ended."""
    found: dict[str, int] = {}
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):  # It may have ended.
                found[thread.name] = int((thread / "schedstat").read_text().split()[1])
    return found
