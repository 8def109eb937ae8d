"""Programs of the project run to their end, and which processes there are, from /proc: what is left of a server."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(sys.executable).parent
MANAGE = (sys.executable, "manage.py")
SHELL = (*MANAGE, "shell", "--no-imports", "-c")
CELERY = (sys.executable, "-m", "celery", "--quiet", "-A", "rtmpweb")

LONGEST_S = 100
"""To import the project takes seconds, and many times that beside others; pytest's own limit, after which nothing is
told of the program, is 120 s.
"""


def run(
    *command: str | Path, environment: Mapping[str, str] = MappingProxyType({}), only: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """What it wrote, whatever it ended with. `environment`: beside that of the tests; or `only` this, and PATH."""
    own = {**os.environ, **environment} if only is None else {"PATH": os.environ["PATH"], **only}
    return subprocess.run(command, cwd=ROOT, env=own, capture_output=True, text=True, timeout=LONGEST_S, check=False)


def parents() -> dict[int, int]:
    """{pid: its parent's pid} of every process that runs; zombies count as ended."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        state, parent = text.rpartition(") ")[2].split()[:2]
        if state not in "ZX":
            found[int(stat.parent.name)] = int(parent)
    return found


def children(pid: int) -> set[int]:
    return {child for child, parent in parents().items() if parent == pid}


def descendants(pid: int) -> set[int]:
    """Children, and theirs."""
    found: set[int] = set()
    table = parents()
    fresh = {pid}
    while fresh:
        fresh = {child for child, parent in table.items() if parent in fresh} - found
        found |= fresh
    return found


def command(pid: int) -> str:
    """The command line, blanks between its words; "" when the process has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def of_folder(folder: Path) -> set[int]:
    """The processes whose environment names this data folder: also those that a dead server left behind."""
    wanted = f"RTMPWEB_DATA_DIR={folder}".encode()
    found = set()
    for pid in parents():
        try:
            if wanted in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                found.add(pid)
        except OSError:
            continue
    return found


def memory_mb(pid: int) -> float:
    """Of it and its descendants, what processes share counted once."""
    found = 0
    for member in (pid, *descendants(pid)):
        text = Path(f"/proc/{member}/smaps_rollup").read_text()
        found += int(text.partition("\nPss:")[2].split()[0])
    return found * 1024 / 1e6


def cpu_seconds(pid: int) -> float:
    """The processor time that a process has used, in user and system mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
