"""Management commands in processes of their own that share one import of the project, which takes more than a second.

For its environment a process imports everything and forks for each command (`python -m tests.commands`). To the
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

from tests.background import ROOT, Dialog

_idle: dict[str, Dialog] = {}
"""The process that waits for further commands, by its environment."""


def run(
    arguments: Sequence[str], environment: Mapping[str, str], timeout_s: float
) -> "subprocess.CompletedProcess[str]":
    """Run `manage.py ARGUMENTS` to its end. Raises subprocess.TimeoutExpired."""
    variables = json.dumps(dict(environment), sort_keys=True)
    process = _idle.pop(variables, None) or Dialog("-m", "tests.commands")
    try:
        code, output, errors = json.loads(process.ask(json.dumps([arguments, variables, timeout_s])))
    except BaseException:
        process.__exit__(None, None, None)
        raise
    close_idle()
    _idle[variables] = process
    if code == -signal.SIGALRM:
        raise subprocess.TimeoutExpired(list(arguments), timeout_s)
    return subprocess.CompletedProcess(arguments, code, output, errors)


@atexit.register
def close_idle() -> None:
    while _idle:
        _idle.popitem()[1].__exit__(None, None, None)


# --- The process of an environment ---


def serve() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Only answers go to the tests.
    for line in sys.stdin:
        arguments, variables, timeout_s = json.loads(line)
        os.environ.clear()
        os.environ.update({"DJANGO_SETTINGS_MODULE": "rtmpweb.settings", **json.loads(variables)})
        with suppress(BaseException):  # The command itself reports a wrong setting.
            import django

            django.setup()
            import rtmpweb.urls  # noqa: F401 - what Django's checks of each command import
        assert threading.active_count() == 1, threading.enumerate()  # The commands would lack its threads.
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            pid = os.fork()
            if pid == 0:
                become(arguments, timeout_s, output.fileno(), errors.fileno())
            _, status = os.waitpid(pid, 0)
            said = [os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode() for file in (output, errors)]
        answers.write(json.dumps([os.waitstatus_to_exitcode(status), *said]) + "\n")
        answers.flush()


def become(arguments: list[str], timeout_s: float, output: int, errors: int) -> None:
    """Run the command in this child until its end, or until a signal kills it as its time is over."""
    signal.setitimer(signal.ITIMER_REAL, timeout_s)
    for number, file in enumerate((os.open(os.devnull, os.O_RDONLY), output, errors)):
        os.dup2(file, number)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.argv = ["manage.py", *arguments]
    code: object = 0
    try:
        runpy.run_path(str(ROOT / "manage.py"), run_name="__main__")
    except SystemExit as end:
        code = end.code
        if isinstance(code, str):
            print(code, file=sys.stderr)  # noqa: T201
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    serve()
