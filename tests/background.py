"""Programs that run next to the tests: Start them, wait until they are ready, end them by their process ids."""

import fcntl
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, Self, TypeVar

from tests.rtmpweb import processes

ROOT = processes.ROOT
T = TypeVar("T")

PORTS = range(20_000, 30_000)
"""Below the ports that the system gives to outgoing connections: a port stays free while its server is down."""

STARTER = ThreadPoolExecutor(1, "background")
"""For the kernel, the parent of a child is the thread that starts it. This thread lives as long as the tests do."""

_port_locks: list[IO[Any]] = []
"""Files that stay open until this process ends, as their locks do."""


def wait_for(check: Callable[[], T | None], *, timeout_s: float, what: str) -> T:
    """Return the first true value of `check()`, called ten times a second. Fail after `timeout_s`, naming `what`."""
    deadline = time.monotonic() + timeout_s
    while True:
        if found := check():
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s} s: {what}")
        time.sleep(0.1)


def free_port() -> int:
    """Return a free port that no other caller has, neither of this process nor of other tests that still run.

    A port is free until its program has started, and while that program is down, so we keep a lock for each port.
    """
    folder = Path(tempfile.gettempdir()) / f"rtmpweb-tests-ports-{os.getuid()}.d"
    folder.mkdir(exist_ok=True)
    while True:
        port = random.choice(PORTS)
        lock = (folder / str(port)).open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            continue
        _port_locks.append(lock)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def accepts(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


class Background:
    """One program that can be started again after each end. It dies with the tests' process, however that dies.

    `FOLDER/NAME.log` has the output since the last start. `ready` is a text of the log, or a condition.
    """

    start_timeout_s = 60.0
    stop_signal = signal.SIGTERM
    stop_timeout_s = 20.0
    nice = 0
    """Priority next to the other programs, as containers have theirs. Below 0 works only if the tests run as root."""
    process: subprocess.Popen[Any]
    started_at = 0.0
    """Time of the last start, in seconds since the epoch."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        folder: Path,
        ready: str | Callable[[], bool] = "",
        environment: Mapping[str, str] | None = None,
        user: str | None = None,
        cwd: Path = ROOT,
    ) -> None:
        self.name = name
        self.command = [str(word) for word in command]
        self.log_file = folder / f"{name}.log"
        self.ready = ready
        self.variables = {**os.environ, **(environment or {}), "PYTHONUNBUFFERED": "1"}
        self._user = user
        self._cwd = cwd

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        self.launch()
        try:
            self.wait_ready()
        except AssertionError:
            self.kill()
            raise

    def launch(self) -> None:
        """Start the program without waiting, so that several can start at once."""
        assert not self.running, f"{self.name} runs already"
        setpriv = shutil.which("setpriv")  # Its whole path, as the program may have another PATH.
        leash = [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []
        self.log_file.unlink(missing_ok=True)
        self.started_at = time.time()
        with self.log_file.open("ab") as log:
            how: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": subprocess.STDOUT}
            how |= {"cwd": self._cwd, "user": self._user, "env": self.variables, "start_new_session": True}
            popen = partial(subprocess.Popen, [*leash, *self.command], **how)
            self.process = STARTER.submit(popen).result()
        if self.nice:  # Linux may weigh sessions against one another (autogroups), and nice values only in a session.
            with suppress(OSError):
                os.setpriority(os.PRIO_PGRP, self.pid, self.nice)
            with suppress(OSError):
                Path(f"/proc/{self.pid}/autogroup").write_text(str(self.nice))

    def wait_ready(self) -> None:
        def is_ready() -> bool:
            assert self.running, f"{self.name} ended before it was ready"
            return self.ready in self.log if isinstance(self.ready, str) else self.ready()

        try:
            wait_for(is_ready, timeout_s=self.start_timeout_s, what=f"{self.name} is ready")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log}") from None

    @property
    def running(self) -> bool:
        return hasattr(self, "process") and self.process.poll() is None

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def send_stop(self) -> None:
        """Ask for the orderly end without waiting for it."""
        if self.running:
            self.resume()
            self.process.send_signal(self.stop_signal)

    def stop(self) -> int:
        """Ask for the orderly end and return the exit code. Kill the program and fail if it doesn't end in time."""
        if not hasattr(self, "process"):
            return 0
        self.send_stop()
        try:
            return self.process.wait(self.stop_timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} did not stop in order:\n{self.log}") from None
        finally:
            if self.running:
                self.kill()

    def kill(self) -> None:
        """Kill the program and all processes that it started."""
        if not hasattr(self, "process"):
            return
        self.pause()  # So that none of them starts another one meanwhile.
        self._signal(signal.SIGKILL, self._members())
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()

    def pause(self) -> None:
        """Stop all its processes, so that the program exists and doesn't answer.

        A process that still runs may start others, as a database does for each connection, so we look again.
        """
        paused: set[int] = set()
        while fresh := self._members() - paused:
            self._signal(signal.SIGSTOP, fresh)
            paused |= fresh

    def resume(self) -> None:
        self._signal(signal.SIGCONT, self._members())

    def _members(self) -> set[int]:
        return {self.pid, *processes.descendants(self.pid)} if self.running else set()

    def _signal(self, number: signal.Signals, pids: set[int]) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def start_all(programs: Iterable[Background]) -> None:
    """Start programs at the same time, as most of their time goes into imports."""
    started = list(programs)
    for each in started:
        each.launch()
    for each in started:
        each.wait_ready()


class Dialog(subprocess.Popen[str]):
    """A Python process that answers each line with a line. Leaving the block kills it."""

    stdin: IO[str]
    stdout: IO[str]

    def __init__(self, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        pipe = subprocess.PIPE
        super().__init__([sys.executable, *arguments], cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, text=True)

    def __exit__(self, *error: Any) -> None:
        self.kill()
        super().__exit__(*error)  # Closes the pipes and waits.

    def ask(self, line: str) -> str:
        self.stdin.write(line + "\n")
        self.stdin.flush()
        return self.read()

    def read(self) -> str:
        line = self.stdout.readline()
        assert line, "the process ended"
        return line.rstrip("\n")
