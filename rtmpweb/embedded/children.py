"""Child processes that are kept running, and stopped with all that they started; the Celery workers among them."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from rtmpweb import broker, parent_death

log = logging.getLogger(__name__)

FIRST_DELAY_S = 1.0
LONGEST_DELAY_S = 60.0
STEADY_AFTER_S = 60.0
"""A child that ran this long starts again after FIRST_DELAY_S; one that ends sooner waits twice as long each time."""

COLD_GRACE_S = 3.0
"""From SIGQUIT to SIGKILL."""

LONGEST_LINE = 65536
"""Bytes of a child's output that are kept without an end of line."""

POLL_S = 0.5
"""How often a program that rests is checked for work."""

OUTPUT_GRACE_S = 1.0
"""For the rest of a child's output, once it has ended."""


@dataclass(frozen=True, slots=True)
class Program:
    """What to run. `environment` is added to this process's own. `wanted`: whether there is work for it, if it is one
    that ends in order (exit code 0) when there is none, and rests then; None: it always runs."""

    name: str
    arguments: tuple[str, ...]
    nice: int = 0
    environment: dict[str, str] = field(default_factory=dict)
    wanted: Callable[[], bool] | None = None


class Child:
    """One program in a session of its own, so that a terminal's Ctrl-C doesn't reach it before its parent says so."""

    def __init__(self, program: Program, write: Callable[[str], None]) -> None:
        self.program = program
        self._write = write
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._failed = False

    def is_well(self) -> bool:
        """False: there is work that nobody takes, as the program has ended before it did. From any thread."""
        return not (self._failed and self.program.wanted is not None and self.program.wanted())

    def start(self) -> None:
        """Called in the event loop's thread, which must outlive the child: it counts as the child's parent."""
        self._task = asyncio.get_running_loop().create_task(self._supervise(), name=f"child {self.program.name}")

    async def stop(self, grace_s: float) -> None:
        """SIGTERM; after `grace_s` SIGQUIT, then SIGKILL for all of its processes."""
        self._stopping.set()
        if self._task is None:
            return
        for number, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGQUIT, COLD_GRACE_S)):
            if self._process is not None and self._process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    self._process.send_signal(number)
            done, _ = await asyncio.wait({self._task}, timeout=wait_s)
            if done:
                return
        self.kill()
        await self._task

    def kill(self) -> None:
        """SIGKILL for the program and all that it started."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def _supervise(self) -> None:
        loop = asyncio.get_running_loop()
        delay = FIRST_DELAY_S
        while not self._stopping.is_set():
            await self._rest()
            if self._stopping.is_set():
                return
            began = loop.time()
            code = await self._run()
            if self._stopping.is_set():
                return
            self._failed = code != 0
            if self.program.wanted is not None and not self._failed:
                delay = FIRST_DELAY_S
                continue
            if loop.time() - began > STEADY_AFTER_S:
                delay = FIRST_DELAY_S
            log.warning("The %s process ended with %s; it starts again in %.0f s.", self.program.name, code, delay)
            await self._stopped_within(delay)
            delay = min(delay * 2, LONGEST_DELAY_S)

    async def _rest(self) -> None:
        """Returns when there is work for it, or it is to stop."""
        if self.program.wanted is not None:
            while not self.program.wanted() and not await self._stopped_within(POLL_S):
                pass

    async def _stopped_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)
        return self._stopping.is_set()

    async def _run(self) -> int:
        """Runs the program once; returns its exit code, or minus the number of the signal that ended it.

        The pipe is our own: with asyncio's, the end of the program is seen only when nothing that it started holds the
        other end any more.
        """
        reading, writing = os.pipe()
        output = asyncio.get_running_loop().create_task(self._relay(reading))
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", parent_death.__file__, str(os.getpid()), str(self.program.nice)),
                *self.program.arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=writing,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **self.program.environment},
            )
        finally:
            os.close(writing)
        if self._stopping.is_set():  # It was asked for while the process started.
            self._process.terminate()
        code = await self._process.wait()
        self.kill()  # What it may have left behind.
        _, unfinished = await asyncio.wait({output}, timeout=OUTPUT_GRACE_S)
        for task in unfinished:
            task.cancel()
        return code

    async def _relay(self, descriptor: int) -> None:
        """Writes each line of output with the program's name before it."""
        output = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(output), os.fdopen(descriptor, "rb", 0)
        )
        rest = b""
        try:
            while chunk := await output.read(LONGEST_LINE):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    self._relay_line(line)
                rest = rest[-LONGEST_LINE:]
            self._relay_line(rest)
        finally:
            transport.close()

    def _relay_line(self, line: bytes) -> None:
        if line.startswith(b"{"):  # A record in JSON, which says itself whose it is.
            self._write(line.decode(errors="replace").rstrip())
        elif line.strip():
            self._write(f"[{self.program.name}] {line.decode(errors='replace').rstrip()}")


CELERY = ("-m", "celery", "--quiet", "-A", "rtmpweb", "worker")

QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat")
"""Nobody listens to what workers say to one another on one machine."""


REST_AFTER_S = 20
"""Longer than a run of the analytics waits for another to end (BUSY_RETRY_S): it is asked for again meanwhile."""


def celery_workers(project: Path, data: Path, queue: Path | None) -> list[Program]:
    """`default` runs the short tasks and the schedule in one process; `analytics` one Spark job at a time, behind
    everything else, each in a process of its own that ends with it. It is there only while there is work.

    `queue`: the broker's folder; None: the broker is elsewhere, and only a worker sees what waits there.
    """
    environment = {
        "PYTHONPATH": os.pathsep.join(filter(None, (str(project), os.environ.get("PYTHONPATH")))),
        "RTMPWEB_DATA_DIR": str(data),
        "RTMPWEB_LOG_LEVEL": os.environ.get("RTMPWEB_LOG_LEVEL") or "WARNING",
    }
    start = (sys.executable, *CELERY, *QUIET)
    rests = ("--rest-after", str(REST_AFTER_S)) if queue is not None else ()
    return [
        Program(
            "default",
            (*start, "-n", "default@%h", "-Q", "default", "-c", "1", "-P", "solo", "--schedule-thread"),
            environment=environment,
        ),
        Program(
            "analytics",
            (*start, "-n", "analytics@%h", "-Q", "analytics", "-c", "1", "--prefetch-multiplier", "1", *rests),
            nice=10,
            environment=environment,
            wanted=partial(broker.has_message, queue, "analytics") if queue is not None else None,
        ),
    ]
