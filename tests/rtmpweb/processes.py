"""Run programs of the project to their end, and read what /proc says of processes."""

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).resolve().parents[2]
PROC = Path("/proc")
PROGRAMS = Path(sys.executable).parent
MANAGE = (sys.executable, "manage.py")
SHELL = (*MANAGE, "shell", "--no-imports", "-c")
CELERY = (sys.executable, "-m", "celery", "--quiet", "-A", "rtmpweb")

LONGEST_S = 100
"""Importing the project takes seconds, and many times that on a busy machine. pytest's own limit, after which the
program's output is lost, is 120 s.
"""


def run(
    *command: str | Path, environment: Mapping[str, str] = MappingProxyType({}), only: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end, with any exit code.

    Args:
        environment: Variables that are added to those of the tests.
        only: All variables except PATH, instead of those of the tests.
    """
    own = {**os.environ, **environment} if only is None else {"PATH": os.environ["PATH"], **only}
    return subprocess.run(command, cwd=ROOT, env=own, capture_output=True, text=True, timeout=LONGEST_S, check=False)


def parents() -> dict[int, int]:
    """Return {pid: its parent's pid} of every process that runs; zombies count as ended."""
    found = {}
    for stat in PROC.glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent = stat.read_text().rpartition(") ")[2].split()[:2]
            if state not in "ZX":
                found[int(stat.parent.name)] = int(parent)
    return found


def children(pid: int) -> set[int]:
    return {child for child, parent in parents().items() if parent == pid}


def descendants(pid: int) -> set[int]:
    """Return the children, their children, and so on."""
    found: set[int] = set()
    table, fresh = parents(), {pid}
    while fresh := {child for child, parent in table.items() if parent in fresh} - found:
        found |= fresh
    return found


def command(pid: int) -> str:
    """Return the command line with blanks between its words, or "" if the process has ended."""
    with suppress(OSError):
        return (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    return ""


def of_folder(folder: Path) -> set[int]:
    """Return the processes whose environment names this data folder, also those that a dead server left behind."""
    wanted = f"RTMPWEB_DATA_DIR={folder}".encode()
    found = set()
    for pid in parents():
        with suppress(OSError):
            if wanted in (PROC / str(pid) / "environ").read_bytes().split(b"\0"):
                found.add(pid)
    return found


@dataclass(frozen=True)
class Held:
    """The resources that one process holds."""

    files: int
    threads: int
    memory_kib: int


def held(pid: int) -> Held:
    process = PROC / str(pid)
    status = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines() if ":\t" in line)
    return Held(len(list((process / "fd").iterdir())), int(status["Threads"]), int(status["VmRSS"].split()[0]))


# --- Time for which threads were ready to run and had no processor (schedstat): a process may be late by that much ---


def _waited_s(thread: Path) -> float:
    return int((thread / "schedstat").read_text().split()[1]) / 1e9


def threads_waited_s(pid: int) -> dict[str, float]:
    """Return the wait of each thread since its start; nothing for a process that has ended."""
    found: dict[str, float] = {}
    for thread in (PROC / str(pid) / "task").glob("*"):
        with suppress(OSError):  # It may have ended.
            found[thread.name] = _waited_s(thread)
    return found


def waited_s(pid: int) -> float:
    """Return the sum over all threads, as each of them may wait for the next."""
    return sum(threads_waited_s(pid).values())


def thread_waited_s() -> float:
    """Return the wait of the calling thread alone."""
    return _waited_s(PROC / "thread-self")


def waited_since_s(before: Mapping[int, float], pids: Iterable[int]) -> float:
    """Return the sum over all processes. `before` has their earlier `waited_s`."""
    return sum(max(0.0, waited_s(pid) - before.get(pid, 0.0)) for pid in pids)
