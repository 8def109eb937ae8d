"""How long a process was ready to run and others had the processors: so much later it may do what it has to."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path


def threads_waited_s(pid: int) -> dict[str, float]:
    """Each of its threads since it began; none of a process that has ended. The kernel counts it (schedstat)."""
    found: dict[str, float] = {}
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        with suppress(OSError):  # It may have ended.
            found[thread.name] = _waited_s(thread)
    return found


def waited_s(pid: int) -> float:
    """All of its threads together: each may wait for the next."""
    return sum(threads_waited_s(pid).values())


def thread_waited_s() -> float:
    """The caller's thread alone, since it began."""
    return _waited_s(Path("/proc/thread-self"))


def waited_each_s(pids: Iterable[int]) -> dict[int, float]:
    return {pid: waited_s(pid) for pid in pids}


def waited_since_s(before: Mapping[int, float], pids: Iterable[int]) -> float:
    """All of the processes together. `before`: of those that were there then, `waited_each_s`."""
    return sum(max(0.0, waited - before.get(pid, 0.0)) for pid, waited in waited_each_s(pids).items())


def _waited_s(thread: Path) -> float:
    return int((thread / "schedstat").read_text().split()[1]) / 1e9
