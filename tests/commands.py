"""Management commands in processes of their own that need not import the project first: it takes them a second each.

For each environment a process imports all, and becomes the parent (`os.fork`) of one process for each command. To the
command it is `manage.py NAME ...` in an operator's shell: its own process, connections and output, and an exit code.
The environments' processes are forked from one that has imported the libraries that read no settings.

What a process is told of its environment does not stand in /proc, where tests look for what a server left behind.
"""

import atexit
import io
import json
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ingest.management.parent_death import die_with_parent

ROOT = Path(__file__).resolve().parent.parent

LIBRARIES = [
    "celery.app",
    "channels.auth",
    "cryptography.x509",
    "django.contrib.admin",
    "httpx",
    "ingest.rtmp.server",
    "numpy",
    "PIL.Image",
    "prometheus_client",
    "psycopg",
    "pyarrow.parquet",
    "pydantic.main",
    "redis.asyncio",
    "wsproto",
]
"""What takes longest to import, of what the project imports, and is the same whatever the settings are."""

FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload([*LIBRARIES, "tests.commands"])

MOST = 2
"""Parents that live at a time: those of the environments that were asked last."""


class Commands:
    def __init__(self, environment: Mapping[str, str]) -> None:
        self._turn = threading.Lock()
        self._pipe, theirs = FORKED.Pipe()
        self._process = FORKED.Process(target=parent, args=(dict(environment), theirs))
        self._process.start()
        theirs.close()

    def run(self, arguments: Sequence[str], timeout_s: float) -> "subprocess.CompletedProcess[str]":
        """Raises subprocess.TimeoutExpired."""
        with self._turn, tempfile.TemporaryDirectory(prefix="rtmpweb-command-") as folder:
            output, errors = Path(folder, "output"), Path(folder, "errors")
            self._pipe.send({"arguments": list(arguments), "output": str(output), "errors": str(errors)})
            try:
                if not self._pipe.poll(timeout_s):
                    self._process.kill()
                code: int = self._pipe.recv()
            except (EOFError, ConnectionError):
                raise subprocess.TimeoutExpired(list(arguments), timeout_s) from None
            return subprocess.CompletedProcess(arguments, code, output.read_text(), errors.read_text())

    @property
    def is_running(self) -> bool:
        return self._process.is_alive()

    def close(self) -> None:
        with self._turn:
            self._pipe.close()
            self._process.join()


_open: "OrderedDict[str, Commands]" = OrderedDict()
_opening = threading.Lock()


def run(
    arguments: Sequence[str], environment: Mapping[str, str], timeout_s: float
) -> "subprocess.CompletedProcess[str]":
    """`manage.py ARGUMENTS`: its exit code and what it wrote. Raises subprocess.TimeoutExpired."""
    return _of(environment).run(arguments, timeout_s)


def _of(environment: Mapping[str, str]) -> Commands:
    name = json.dumps(dict(environment), sort_keys=True)
    with _opening:
        found = _open.pop(name, None)
        if found is not None and not found.is_running:
            found.close()
            found = None
        _open[name] = found = found or Commands(environment)
        while len(_open) > MOST:
            _open.popitem(last=False)[1].close()
    return found


@atexit.register
def close_all() -> None:
    while _open:
        _open.popitem()[1].close()


# --- The parent ---


def parent(environment: Mapping[str, str], orders: "Connection[int, dict[str, Any]]") -> None:
    """An order has `arguments`, and `output` and `errors`, which are files. The answer is the exit code."""
    os.chdir(ROOT)
    os.environ.clear()
    os.environ.update(environment)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rtmpweb.settings")
    with suppress(EOFError):
        while order := orders.recv():
            _prepare()
            pid = os.fork()
            if pid == 0:
                _become(**order)
            _, status = os.waitpid(pid, 0)
            orders.send(os.waitstatus_to_exitcode(status))


def _prepare() -> None:
    """Imports what commands need. Nothing of a parent's state may matter to them: no connection, no thread."""
    if "rtmpweb.urls" in sys.modules:
        return
    with suppress(BaseException):  # A wrong setting is the command's to tell of.
        import django

        django.setup()
        import rtmpweb.urls  # noqa: F401 - what Django's checks of each command import
    assert threading.active_count() == 1, threading.enumerate()


def _become(arguments: list[str], output: str, errors: str) -> None:
    """In the child: the command, to its end, or that of its parent, which is killed when the command's time is over."""
    die_with_parent()
    for number, file, mode in ((0, os.devnull, os.O_RDONLY), (1, output, 0), (2, errors, 0)):
        handle = os.open(file, mode or os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, number)
        os.close(handle)
    sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False))
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
