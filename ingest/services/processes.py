"""Which process it was that wrote something down, and whether it still runs, as far as that can be told from here."""

import functools
import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path

UNKNOWN = "-"
"""Where there is no /proc."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process, apart from every other one. As text it has its four parts with blanks between them."""

    host: str
    pid: int
    began: str
    """In the kernel's ticks since the machine's start."""
    place: str
    """The machine's start, and the namespace of its process numbers: containers have their own."""

    def __str__(self) -> str:
        return f"{self.host} {self.pid} {self.began} {self.place}"

    @property
    def runs(self) -> bool | None:
        """None: it is, or was, of another machine or container, or of another start of this one."""
        if self.place == UNKNOWN or self.place != _place():
            return None
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        began = _began(self.pid)
        return None if began is None else began == self.began


def read(text: str) -> Process | None:
    """What `str` made of a process; None: it is none."""
    match text.split():
        case [host, pid, began, place] if pid.isdecimal():
            return Process(host, int(pid), began, place)
    return None


@functools.cache
def own() -> Process:
    """This one."""
    pid = os.getpid()
    return Process(socket.gethostname()[:64] or UNKNOWN, pid, _began(pid) or str(time.time_ns()), _place())


os.register_at_fork(after_in_child=own.cache_clear)


def _began(pid: int) -> str | None:
    """ "": it has ended, and its parent has yet to notice. None: that can't be seen."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()  # proc(5): from the third on.
    except OSError:
        return None
    return "" if fields[0] in "ZX" else fields[19]


@functools.cache
def _place() -> str:
    try:
        started = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{started}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return UNKNOWN
