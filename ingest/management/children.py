"""Child processes that are kept running, and stopped with all that they started."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from ingest.management import parent_death

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
    that ends in order (exit code 0) when there is none, and rests then; None: it always runs. `ready`: with what a line
    of its output begins when it does what it is for. `descriptors`: of this process's open files, what it gets."""

    name: str
    arguments: tuple[str, ...]
    nice: int = 0
    environment: dict[str, str] = field(default_factory=dict)
    wanted: Callable[[], bool] | None = None
    ready: str = ""
    descriptors: tuple[int, ...] = ()


class Child:
    """One program in a session of its own, so that a terminal's Ctrl-C doesn't reach it before its parent says so."""

    def __init__(self, program: Program, write: Callable[[str], None]) -> None:
        self.program = program
        self._write = write
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._failed = False
        self._begun: asyncio.Future[bool] | None = None

    def is_well(self) -> bool:
        """False: there is work that nobody takes, as the program has ended before it did. From any thread."""
        return not (self._failed and self.program.wanted is not None and self.program.wanted())

    def start(self) -> None:
        """Called in the event loop's thread, which must outlive the child: it counts as the child's parent."""
        loop = asyncio.get_running_loop()
        self._begun = loop.create_future()
        self._task = loop.create_task(self._supervise(), name=f"child {self.program.name}")

    async def has_begun(self) -> bool:
        """Once it was ready for the first time. False: it ended before."""
        assert self._begun is not None  # noqa: S101 - `start` comes first.
        return await asyncio.shield(self._begun)

    def send_signal(self, number: signal.Signals) -> None:
        """To the program, if it runs."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def stop(self, grace_s: float) -> None:
        """SIGTERM; after `grace_s` SIGQUIT, then SIGKILL for all of its processes."""
        self._stopping.set()
        if self._task is None:
            return
        for number, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGQUIT, COLD_GRACE_S)):
            self.send_signal(number)
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
            self._note_begun(False)
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
                pass_fds=self.program.descriptors,
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
            text = line.decode(errors="replace").rstrip()
            self._write(f"[{self.program.name}] {text}")
            if self.program.ready and text.startswith(self.program.ready):
                self._note_begun(True)

    def _note_begun(self, has_begun: bool) -> None:
        if self._begun is not None and not self._begun.done():
            self._begun.set_result(has_begun)
