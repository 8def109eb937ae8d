"""Management commands in processes of their own that share one import of the project, which takes more than a second.

For each environment a process imports everything and forks for each command (`python -m tests.commands`). To the
command it is `manage.py NAME ...` in an operator's shell: its own process, connections and output, and an exit code.

Tests look in /proc for processes of a data folder, so a process receives its environment by its standard input.
"""

import atexit
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO

from tests.background import ROOT, Dialog

MOST = 2
"""Processes that wait for further commands, each of another environment."""

_idle: dict[str, Dialog] = {}
_lock = threading.Lock()


def run(
    arguments: Sequence[str], environment: Mapping[str, str], timeout_s: float
) -> "subprocess.CompletedProcess[str]":
    """Run `manage.py ARGUMENTS` to its end. Raises subprocess.TimeoutExpired."""
    variables = json.dumps(dict(environment), sort_keys=True)
    process = _idle.pop(variables, None) or Dialog("-m", "tests.commands")
    try:
        answer = process.ask(json.dumps([arguments, variables, timeout_s]))
    except BaseException:
        process.__exit__()
        raise
    with _lock:
        former, _idle[variables] = _idle.pop(variables, None), process
        excess = [_idle.pop(name) for name in list(_idle)[:-MOST]]
    for each in filter(None, [former, *excess]):
        each.__exit__()
    code, output, errors = json.loads(answer)
    if code == -signal.SIGALRM:
        raise subprocess.TimeoutExpired(list(arguments), timeout_s)
    return subprocess.CompletedProcess(arguments, code, output, errors)


@atexit.register
def close_all() -> None:
    while _idle:
        _idle.popitem()[1].__exit__()


# --- The process of an environment ---


def serve() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Only answers go to the tests.
    os.chdir(ROOT)
    for line in sys.stdin:
        arguments, variables, timeout_s = json.loads(line)
        os.environ.clear()
        os.environ.update({"DJANGO_SETTINGS_MODULE": "rtmpweb.settings", **json.loads(variables)})
        _prepare()
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            pid = os.fork()
            if pid == 0:
                _become(arguments, output, errors, timeout_s)
            _, status = os.waitpid(pid, 0)
            said = []
            for file in (output, errors):
                file.seek(0)
                said.append(file.read().decode())
        answers.write(json.dumps([os.waitstatus_to_exitcode(status), *said]) + "\n")
        answers.flush()


def _prepare() -> None:
    """Import what commands need. It leaves no connection and no thread, which the commands would inherit."""
    if "rtmpweb.urls" in sys.modules:
        return
    with suppress(BaseException):  # The command itself reports a wrong setting.
        import django

        django.setup()
        import rtmpweb.urls  # noqa: F401 - what Django's checks of each command import
    assert threading.active_count() == 1, threading.enumerate()


def _become(arguments: list[str], output: IO[bytes], errors: IO[bytes], timeout_s: float) -> None:
    """Run the command in this child until its end, or until a signal kills it as its time is over."""
    signal.setitimer(signal.ITIMER_REAL, timeout_s)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output.fileno(), 1)
    os.dup2(errors.fileno(), 2)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.argv = ["manage.py", *arguments]
    code = 0
    try:
        runpy.run_path(str(ROOT / "manage.py"), run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)  # noqa: T201
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve()
