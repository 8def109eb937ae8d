"""What a server takes that has little to do: with nobody connected, and for each connection that only waits."""

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import uvloop

from bench.load.joiners import Joined
from bench.measure import Figures, on_generators_core, pinned
from bench.peers import Start
from bench.process import pss, usage

SETTLE_S = 40.0
"""After the start: imports, first pages and the analytics worker's first look are over then."""
QUIET_S = 30.0
FIRST, MORE = 200, 800
"""Connections: what the first ones cost is not counted."""
JOIN_S = 1.5
REST_S = 3.0


def quiet(start: Start, seconds: float) -> Figures:
    """A `Measure`: all processes of the form, on all cores."""
    with start() as server:
        time.sleep(SETTLE_S)
        before, began = sum(usage(pid).cpu_s for pid in server.processes()), time.monotonic()
        time.sleep(max(seconds, QUIET_S))
        after = sum(usage(pid).cpu_s for pid in server.processes())
        return {
            "busy_cores": (after - before) / (time.monotonic() - began),
            "pss_mb": pss(server.processes()) / 1e6,
            "other_cores": 0.0,
        }


@dataclass(frozen=True, slots=True)
class Waiting:
    """Publishers that have sent no media yet, or players of a stream that nobody publishes."""

    act: Literal["publish", "play"]

    def measure(self, start: Start, seconds: float) -> Figures:
        with pinned(start) as server, on_generators_core(server):
            names = list(server.keys) if self.act == "publish" else ["nobody"] * (FIRST + MORE)
            return uvloop.run(self._grow(server.pid, (server.url, server.app), names))

    async def _grow(self, pid: int, where: tuple[str, str], names: Sequence[str]) -> Figures:
        first = await self._join(where, names[:FIRST])
        await asyncio.sleep(REST_S)
        before = usage(pid, alone=True).rss_bytes
        more = await self._join(where, names[FIRST : FIRST + MORE])
        await asyncio.sleep(REST_S)
        grown = usage(pid, alone=True).rss_bytes - before
        for process in (first, more):
            process.terminate()
            await process.wait()
        return {"kb_each": grown / 1e3 / MORE, "other_cores": 0.0}

    async def _join(self, where: tuple[str, str], names: Sequence[str]) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bench.load.joiners", *where, self.act, str(JOIN_S)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("".join(f"{name}\n" for name in [*names, ""]).encode())
        joined = Joined(**json.loads(await process.stdout.readline()))
        assert not joined.refused, joined.refused
        return process
