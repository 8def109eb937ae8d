"""What a process and its children use, from /proc; and on which core they run. Linux only."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

PPID, UTIME, RSS = 1, 11, 21
"""Fields of /proc/PID/stat after the name. From UTIME on: own user and system time, then that of dead children."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Of a process and all its descendants."""

    cpu_s: float
    """User and system time, with that of children that have ended."""
    rss_bytes: int
    """Resident memory; what processes share is counted for each."""


def usage(pid: int) -> Usage:
    """Raises ProcessLookupError when the process is gone."""
    found = _stats()
    if pid not in found:
        raise ProcessLookupError(f"process {pid} is gone")
    children: dict[int, list[int]] = {}
    for child, fields in found.items():
        children.setdefault(int(fields[PPID]), []).append(child)
    tree = [pid]
    for member in tree:
        tree += children.get(member, [])
    ticks = sum(int(ticks) for member in tree for ticks in found[member][UTIME : UTIME + 4])
    return Usage(ticks / TICKS_PER_S, sum(int(found[member][RSS]) for member in tree) * PAGE_BYTES)


def _stats() -> dict[int, list[str]]:
    found = {}
    for folder in PROC.iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):  # It ended meanwhile.
                text = (folder / "stat").read_text()
                found[int(folder.name)] = text[text.rindex(")") + 2 :].split()
    return found


def machine_cpu_s() -> float:
    """What all processes of the machine have used, all cores together, with what was stolen from it."""
    fields = [int(field) for field in (PROC / "stat").read_text().split("\n", 1)[0].split()[1:9]]
    user, nice, system, _idle, _waiting, interrupts, soft_interrupts, stolen = fields
    return (user + nice + system + interrupts + soft_interrupts + stolen) / TICKS_PER_S


def cores() -> tuple[int, int]:
    """The cores of server and generator; the same, to the figures' harm, where there is only one."""
    found = sorted(os.sched_getaffinity(0))
    return found[0], found[min(1, len(found) - 1)]


@contextlib.contextmanager
def on_core(core: int) -> Iterator[None]:
    """This process, and all that it starts within the block, on one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
