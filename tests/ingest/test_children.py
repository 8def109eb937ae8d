"""Child processes: their output, their restarts, their end."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ingest.management import children, parent_death
from ingest.management.children import Child, Program
from tests.rtmpweb import processes
from tests.server_process import wait_for

STUBBORN = """
import os, signal, time
for number in (signal.SIGTERM, signal.SIGQUIT):
    signal.signal(number, lambda number, frame: os.write(1, b"got %d\\n" % number))
os.write(1, (b"child %d\\n" if os.fork() == 0 else b"parent %d\\n") % os.getpid())
while True:
    time.sleep(60)
"""


def python(code: str, *, nice: int = 0, **environment: str) -> Program:
    return Program("test", (sys.executable, "-c", code), nice=nice, environment=environment)


class Screen:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self._changed = asyncio.Event()

    def write(self, line: str) -> None:
        self.lines.append(line)
        self._changed.set()

    async def wait_for(self, found: Callable[[], bool], timeout_s: float = 20) -> None:
        async with asyncio.timeout(timeout_s):
            while not found():
                self._changed.clear()
                await self._changed.wait()

    def pids(self, word: str) -> list[int]:
        text = "\n".join(self.lines)
        return [int(pid) for pid in re.findall(rf"^\[test\] {word} (\d+)$", text, re.MULTILINE)]


@asynccontextmanager
async def started(program: Program) -> AsyncIterator[tuple[Child, Screen]]:
    screen = Screen()
    child = Child(program, screen.write)
    child.start()
    try:
        yield child, screen
    finally:
        await child.stop(0.1)


async def ended(pids: set[int]) -> None:
    await asyncio.to_thread(
        wait_for, lambda: not pids & processes.parents().keys(), timeout_s=5, what="the processes have ended"
    )


async def test_output_is_marked_with_the_programs_name() -> None:
    code = "import os, time; os.write(1, b'one\\n\\n'); os.write(2, b'two\\nthree'); time.sleep(60)"
    async with started(python(code)) as (child, screen):
        await screen.wait_for(lambda: len(screen.lines) == 2)
        await child.stop(5)
    assert screen.lines == ["[test] one", "[test] two", "[test] three"]


async def test_child_runs_in_own_session_with_its_niceness_and_environment() -> None:
    code = "import os; print(os.getsid(0) == os.getpid(), os.nice(0), os.environ['EXTRA'], flush=True)"
    expected = f"[test] True {os.nice(0) + 3} given"
    async with started(python(code, nice=3, EXTRA="given")) as (_, screen):
        await screen.wait_for(lambda: expected in screen.lines)


async def test_ended_child_is_restarted_after_growing_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "FIRST_DELAY_S", 0.2)
    async with started(python("import os; print('pid', os.getpid())")) as (_, screen):
        begun = asyncio.get_running_loop().time()
        await screen.wait_for(lambda: len(screen.pids("pid")) == 3)
        assert asyncio.get_running_loop().time() - begun > 0.2 + 0.4
    assert len(set(screen.pids("pid"))) == 3


async def test_child_is_not_restarted_until_there_is_work_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(children, "POLL_S", 0.05)
    monkeypatch.setattr(children, "FIRST_DELAY_S", 0.05)
    work = tmp_path / "work"
    code = f"import os; os.remove({str(work)!r}); print('pid', os.getpid())"
    async with started(replace(python(code), wanted=work.exists)) as (child, screen):
        for times in (1, 2):
            work.touch()
            await screen.wait_for(lambda times=times: len(screen.pids("pid")) == times)  # type: ignore[misc]
            assert child.is_well()
    assert not any("starts again" in line for line in screen.lines)


async def test_child_that_ends_without_taking_its_work_counts_as_unwell(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(children, "FIRST_DELAY_S", 0.05)
    work = tmp_path / "work"
    work.touch()
    code = f"import os; print('pid', os.getpid()); os._exit(3 if os.path.exists({str(work)!r}) else 0)"
    async with started(replace(python(code), wanted=work.exists)) as (child, screen):
        await screen.wait_for(lambda: len(screen.pids("pid")) == 2)
        assert not child.is_well()
        work.unlink()
        assert child.is_well()


async def test_child_waiting_for_its_restart_is_stopped_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "FIRST_DELAY_S", 60)
    async with started(python("print('done')")) as (child, screen):
        await screen.wait_for(lambda: bool(screen.lines))
        async with asyncio.timeout(10):
            await child.stop(5)
    assert screen.lines == ["[test] done"]


async def test_child_ignoring_signals_is_killed_with_its_descendants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "COLD_GRACE_S", 0.2)
    real_wait, signals = asyncio.wait, iter((1, 2))
    async with started(python(STUBBORN)) as (child, screen):
        await screen.wait_for(lambda: bool(screen.pids("parent") and screen.pids("child")))
        pids = {*screen.pids("parent"), *screen.pids("child")}
        assert pids <= processes.parents().keys()

        async def wait(tasks: Any, *, timeout: float) -> Any:  # noqa: ASYNC109 - asyncio's own
            """A grace begins when the signal was heard: of two at once Python runs the lower number's handler first."""
            count = next(signals, 2)
            await screen.wait_for(lambda: len(screen.pids("got")) >= count)
            return await real_wait(tasks, timeout=timeout)

        monkeypatch.setattr(asyncio, "wait", wait)
        await child.stop(0.2)
        assert screen.pids("got") == [signal.SIGTERM, signal.SIGQUIT]
        await ended(pids)


async def test_processes_left_behind_by_an_ended_child_are_killed() -> None:
    code = "import os, time\npid = os.fork()\nif pid: print('child', pid, flush=True)\nelse: time.sleep(60)"
    async with started(python(code)) as (_, screen):
        await screen.wait_for(lambda: bool(screen.pids("child")))
        await ended(set(screen.pids("child")[:1]))


async def test_child_ignoring_signals_dies_when_its_parent_is_killed() -> None:
    deaf = """
import os, signal, time
for number in (signal.SIGTERM, signal.SIGQUIT):
    signal.signal(number, signal.SIG_IGN)
print(os.getpid(), flush=True)
time.sleep(60)
"""
    parent = (
        "import os, subprocess, sys; "
        "subprocess.run([sys.executable, '-I', sys.argv[1], str(os.getpid()), '0', sys.executable, '-c', sys.argv[2]])"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", parent, parent_death.__file__, deaf), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    pid = int(await process.stdout.readline())
    assert pid in processes.parents()
    process.kill()
    await process.wait()
    await ended({pid})
