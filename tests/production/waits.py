"""How long a process was ready to run and others had the processors: so much later it may do what it has to."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path


def waited_s(pid: int) -> float:
    """Since its threads began, all of them together: each may wait for the next. The kernel counts it (schedstat)."""
    waited_ns = 0
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        with suppress(OSError):  # It may have ended.
            waited_ns += _waited_ns(thread)
    return waited_ns / 1e9


def thread_waited_s() -> float:
    """The caller's thread alone, since it began."""
    return _waited_ns(Path("/proc/thread-self")) / 1e9


def waited_each_s(pids: Iterable[int]) -> dict[int, float]:
    return {pid: waited_s(pid) for pid in pids}


def waited_since_s(before: Mapping[int, float], pids: Iterable[int]) -> float:
    """All of the processes together. `before`: of those that were there then, `waited_each_s`."""
    return sum(max(0.0, waited - before.get(pid, 0.0)) for pid, waited in waited_each_s(pids).items())


def _waited_ns(thread: Path) -> int:
    return int((thread / "schedstat").read_text().split()[1])
