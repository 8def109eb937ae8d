"""What a rush costs: many publishers within a second, as after an outage, or many players of one stream; and what those
have of it who are there already."""

import argparse
import asyncio
import contextlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import uvloop

from bench.load.client import Target
from bench.load.clip import clip
from bench.load.joiners import Joined
from bench.load.run import Load, Window, run
from bench.measure import Figures, Meter, on_generators_core, percentile, pinned
from bench.peers import Server, Start, rtmpweb

PUBLISHERS, PUBLISHERS_S = 300, 1.0
PLAYERS, PLAYERS_S = 1000, 2.0
MBPS = 1.0
STREAMS, THERE = 20, 100
"""Streams and players that are there already, of MBPS each."""
SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Rush:
    act: Literal["publish", "play"]
    count: int
    within_s: float

    def measure(self, start: Start, seconds: float) -> Figures:
        """For so long at least, and until the last has its answer."""
        with pinned(start) as server, on_generators_core(server):
            meter = Meter(server)
            coming = Coming(self, server, meter)
            window = uvloop.run(coming.beside(load(server, seconds)))
        joined = coming.joined
        for why, number in joined.refused.items():
            print(f"{number} refused: {why}", file=sys.stderr)
        return {
            "refused": self.count - joined.admitted,
            "last_s": joined.last_s,
            "slowest_s": joined.slowest_s,
            "delay_p99_ms": percentile(window.delays_ms, 0.99),
            "delay_max_ms": window.delays_ms[-1],
            "cpu_ms_each": meter.cpu_s / self.count * 1e3,
            "generator_cores": window.own_cpu,
            "lateness_ms": window.lateness_ms,
            "lost": window.missing + window.left_out + len(window.errors),
            **meter.noise(window.own_cpu, window.seconds),
        }


def load(server: Server, seconds: float) -> Load:
    target = Target.of(server.url, rtmpweb.APP)
    return Load(target, clip(MBPS), STREAMS, players=THERE, each=True, readers=THERE, seconds=max(seconds, SECONDS))


class Coming:
    """A load's Watcher, in whose window they come."""

    joined: Joined

    def __init__(self, rush: Rush, server: Server, meter: Meter) -> None:
        self._rush, self._server, self._meter = rush, server, meter
        self._began = asyncio.Event()

    async def beside(self, there: Load) -> Window:
        rush = asyncio.create_task(self._come())
        try:
            return await run(there, self)
        finally:
            await rush

    async def _come(self) -> None:
        names = self._names()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bench.load.joiners", self._server.url),
            *(self._server.app if self._rush.act == "publish" else rtmpweb.APP, self._rush.act),
            str(self._rush.within_s),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            await self._began.wait()
            process.stdin.write("".join(f"{name}\n" for name in [*names, ""]).encode())
            self.joined = Joined(**json.loads(await process.stdout.readline()))
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.wait()

    def _names(self) -> Sequence[str]:
        if self._rush.act == "publish":
            return self._server.keys[: self._rush.count]
        return ["load0"] * self._rush.count

    def joining(self) -> None:
        self._meter.joining()

    def begin(self) -> None:
        self._meter.begin()
        self._began.set()

    def end(self) -> None:
        self._meter.end()


PUBLISH = Rush("publish", PUBLISHERS, PUBLISHERS_S)
PLAY = Rush("play", PLAYERS, PLAYERS_S)


def add_arguments(act: argparse.ArgumentParser) -> None:
    act.add_argument("--form", choices=list(rtmpweb.FORMS), default="node")
    act.add_argument("--act", choices=["publish", "play"], default="publish")
    act.add_argument("--count", type=int, help=f"({PUBLISHERS} or {PLAYERS})")
    act.add_argument("--within", type=float, help=f"seconds ({PUBLISHERS_S:g} or {PLAYERS_S:g})")
    act.set_defaults(run=main)


def main(options: argparse.Namespace) -> int:
    usual = PUBLISH if options.act == "publish" else PLAY
    rush = Rush(options.act, options.count or usual.count, options.within or usual.within_s)
    with contextlib.closing(rtmpweb.Template()) as template:
        figures = rush.measure(lambda: rtmpweb.running(options.form, template, keys=rush.count), SECONDS)
    for name, value in figures.items():
        print(f"{name:16} {value:.3f}")
    return 0
