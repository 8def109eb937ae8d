"""What a process and its children use, from /proc; and on which core they run. Linux only."""

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.rtmpweb.processes import descendants

PROC = Path("/proc")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

UTIME, RSS = 11, 21
"""Places in the fields of /proc/PID/stat after the name. Four times begin at UTIME: user and system, own and those of
children that ended."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Of a process, and of its descendants where they are asked for."""

    cpu_s: float
    """User and system time, with that of children that have ended."""
    kernel_s: float
    """Of these, system time."""
    rss_bytes: int
    """Resident memory; what processes share is counted for each."""


def usage(pid: int, *, alone: bool = False) -> Usage:
    """Of the process `alone`, or with all its descendants. Raises ProcessLookupError when it is gone."""
    user = kernel = pages = 0
    for member in (pid, *(() if alone else descendants(pid))):
        try:
            fields = (PROC / str(member) / "stat").read_text().rpartition(") ")[2].split()
        except OSError:
            if member == pid:
                raise ProcessLookupError(f"process {pid} is gone") from None
            continue  # A child that ended meanwhile: its time is its parent's now.
        own_user, own_kernel, children_user, children_kernel = map(int, fields[UTIME : UTIME + 4])
        user += own_user + (0 if alone else children_user)
        kernel += own_kernel + (0 if alone else children_kernel)
        pages += int(fields[RSS])
    return Usage((user + kernel) / TICKS_PER_S, kernel / TICKS_PER_S, pages * PAGE_BYTES)


def pss(pids: Iterable[int]) -> int:
    """Bytes of these processes and their descendants, what several share divided among them."""
    found = 0
    for pid in pids:
        for member in (pid, *descendants(pid)):
            with contextlib.suppress(OSError):
                rollup = (PROC / str(member) / "smaps_rollup").read_text()
                found += next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")) * 1024
    return found


def pin_to(pid: int, cores: Iterable[int]) -> None:
    """Every thread of the process and its descendants to these cores; what they start later stays there too."""
    wanted = set(cores)
    for member in (pid, *descendants(pid)):
        for thread in (PROC / str(member) / "task").iterdir():
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(thread.name), wanted)


def machine_cpu_s() -> float:
    """What all processes of the machine have used, all cores together, with what was stolen from it."""
    fields = [int(field) for field in (PROC / "stat").read_text().split("\n", 1)[0].split()[1:9]]
    user, nice, system, _idle, _waiting, interrupts, soft_interrupts, stolen = fields
    return (user + nice + system + interrupts + soft_interrupts + stolen) / TICKS_PER_S


def cores(workers: int = 1) -> tuple[set[int], int]:
    """The cores of a server with so many workers, and that of the generator. It is one of the server's, to the figures'
    harm, where there are too few.
    """
    found = sorted(os.sched_getaffinity(0))
    return set(found[:workers]), found[min(workers, len(found) - 1)]


@contextlib.contextmanager
def on_core(core: int) -> Iterator[None]:
    """This thread on one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
