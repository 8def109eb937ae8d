"""How long a process was ready to run and others had the processors: so much later it may do what it has to."""

from contextlib import suppress
from pathlib import Path


def waited_s(pid: int) -> float:
    """Since its threads began, all of them together: each may wait for the next. The kernel counts it (schedstat)."""
    waited_ns = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # It may have ended.
            waited_ns += int((thread / "schedstat").read_text().split()[1])
    return waited_ns / 1e9
