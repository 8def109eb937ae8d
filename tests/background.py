"""Programs that run beside the tests: started, waited for by a condition, ended by pid and process group."""

import fcntl
import functools
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO, Self

from tests.rtmpweb import processes
from tests.server_process import wait_for

ROOT = Path(__file__).resolve().parent.parent

PORTS = range(20_000, 30_000)
"""Below those that the system gives to outgoing connections: a port stays free while its server is down."""

STARTER = ThreadPoolExecutor(1, "background")
"""The children's parent, for the kernel, is the thread that starts them: this one lives as long as the tests do."""


_given: set[int] = set()
"""To this process."""
_giving = threading.Lock()


def free_port() -> int:
    """One that no other caller was given: neither of this process nor of another of the tests that still runs.

    A port is free until its program has started, and while that is down: to look whether it is taken is not enough.
    """
    while True:
        port = random.choice(PORTS)
        with _giving:
            if port in _given or not _reserve(port):
                continue
            _given.add(port)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def _reserve(port: int) -> bool:
    """False: another process has it. A lock of the byte of its number, which ends with the process, however it ends."""
    try:
        fcntl.lockf(_reservations(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


@functools.cache
def _reservations() -> IO[bytes]:
    """Open as long as the process runs: to close it would give all of its ports away."""
    return (Path(tempfile.gettempdir()) / f"rtmpweb-tests-ports-{os.getuid()}").open("ab")


def accepts(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


class Background:
    """One program that can be started again after each end. Its output is kept in `FOLDER/NAME.log`, run after run.

    It dies with the tests' process, however that dies. `ready` is a text of its log, or a condition.
    """

    stop_signal = signal.SIGTERM
    stop_timeout_s = 20.0
    nice = 0
    """Its weight beside the other programs, as containers have theirs; below 0 only where the tests run as root."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        folder: Path,
        ready: str | Callable[[], bool],
        environment: Mapping[str, str] | None = None,
        user: str | None = None,
        cwd: Path = ROOT,
    ) -> None:
        self.name = name
        self.command = [str(word) for word in command]
        self.log_file = folder / f"{name}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.started_at = 0.0
        """When it was last started, in seconds since the epoch."""
        self._ready = ready
        self._environment = {**os.environ, **(environment or {}), "PYTHONUNBUFFERED": "1"}
        self._user = user
        self._cwd = cwd
        self._began = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self, timeout_s: float = 60) -> None:
        self.launch()
        self.wait_ready(timeout_s)

    def launch(self) -> None:
        """Starts the program and doesn't wait: several may start at once."""
        assert not self.running, f"{self.name} runs already"
        self._began = self.log_file.stat().st_size if self.log_file.exists() else 0
        self.started_at = time.time()
        self.process = STARTER.submit(self._popen).result()
        self._weigh()

    def _popen(self) -> "subprocess.Popen[bytes]":
        leash = ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []
        with self.log_file.open("ab") as output:
            return subprocess.Popen(
                [*leash, *self.command],
                cwd=self._cwd,
                env=self._environment,
                user=self._user,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _weigh(self) -> None:
        """Linux may weigh sessions against one another (autogroups), and nice values only within each."""
        if not self.nice:
            return
        with suppress(OSError):
            os.setpriority(os.PRIO_PGRP, self.pid, self.nice)
        with suppress(OSError):
            Path(f"/proc/{self.pid}/autogroup").write_text(str(self.nice))

    def wait_ready(self, timeout_s: float = 60) -> None:
        try:
            wait_for(self._is_ready, timeout_s=timeout_s, what=f"{self.name} is ready")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log}") from None

    def _is_ready(self) -> bool:
        assert self.running, f"{self.name} ended before it was ready"
        return self._ready in self.log if isinstance(self._ready, str) else self._ready()

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def log(self) -> str:
        """What it wrote since its last start."""
        with suppress(FileNotFoundError), self.log_file.open("rb") as kept:
            kept.seek(self._began)
            return kept.read().decode(errors="replace")
        return ""

    def send_stop(self) -> None:
        """Asks for the orderly end and doesn't wait; `stop` does."""
        if self.process is not None and self.running:
            self.resume()
            self.process.send_signal(self.stop_signal)

    def stop(self) -> int:
        """The orderly end; the exit code. What it left behind is killed. Fails if it doesn't end in time."""
        if self.process is None:
            return 0
        self.send_stop()
        try:
            return self.process.wait(self.stop_timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} did not stop in order:\n{self.log}") from None
        finally:
            self.kill()

    def kill(self) -> None:
        """SIGKILL for the program and all that it started."""
        if self.process is None:
            return
        self.pause()  # So that none of them starts another one meanwhile.
        self._signal(signal.SIGKILL, self._members())
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def pause(self) -> None:
        """SIGSTOP for all its processes: it is there and doesn't answer. One that still runs may start others until it
        is told, as a database does for each connection."""
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


class Dialog:
    """A Python process that is asked a line at a time, and answers with one. It is killed with the block."""

    def __init__(self, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        """`environment`: None is that of the tests."""
        self._process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        with self._process:
            pass  # Closes the pipes and waits.

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def input(self) -> IO[str]:
        assert self._process.stdin is not None
        return self._process.stdin

    def ask(self, line: str) -> str:
        self.input.write(line + "\n")
        self.input.flush()
        return self.read()

    def read(self) -> str:
        """The next line that it says."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the process ended"
        return line.rstrip("\n")
