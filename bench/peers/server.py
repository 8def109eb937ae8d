"""A server as a process: started, waited for, ended by its pid."""

import contextlib
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

READY_S = 60.0
STOP_S = 30.0
ROOT = Path(__file__).resolve().parents[2]


class NotReady(Exception):  # noqa: N818 - it reads as what it says.
    """The server ended, or said nothing in time; the text has its output."""


@dataclass(frozen=True, slots=True)
class Server:
    """One that is ready."""

    pid: int
    url: str
    """rtmp://host:port"""
    app: str
    """An application that anybody may publish to and play from."""


@contextlib.contextmanager
def started(
    command: Sequence[str],
    log: Path,
    ready: Callable[[str], str | None],
    *,
    environment: Mapping[str, str] | None = None,
) -> Iterator[tuple[int, str]]:
    """The process's pid, and what `ready` found in its output. `log`: the file for the output."""
    with log.open("w") as output:
        process = subprocess.Popen(
            list(command), cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
        )
    try:
        yield process.pid, _wait(process, log, ready)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(process: subprocess.Popen[bytes], log: Path, ready: Callable[[str], str | None]) -> str:
    deadline = time.monotonic() + READY_S
    while True:
        ended = process.poll() is not None
        text = log.read_text()
        found = ready(text)
        if found:
            return found
        if ended or time.monotonic() > deadline:
            raise NotReady(f"{process.args!r} is not ready:\n{text}")
        time.sleep(0.05)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def answers(port: int) -> bool:
    """Whether somebody listens there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
