"""Start a program that dies with its parent: `python parent_death.py PARENT_PID NICE PROGRAM [ARGUMENT ...]`.

A small program of its own (run by its path, so that it imports nothing of the project), as code between fork and exec
of a process with threads may deadlock. The program replaces it, so the parent's child is the program itself.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """The kernel kills this process when its parent dies, however it dies. Linux only; elsewhere nothing.

    SIGKILL: at another signal Celery would end its tasks in the signal's handler, and may get stuck there.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def main(arguments: list[str]) -> None:
    parent, nice, program, *_ = arguments
    die_with_parent()
    if os.getppid() != int(parent):  # It died before the line above.
        sys.exit(1)
    os.nice(int(nice))
    os.execv(program, arguments[2:])  # noqa: S606 - replacing this process is the point.


if __name__ == "__main__":
    main(sys.argv[1:])
