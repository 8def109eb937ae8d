"""One measurement: a load on a server that was just started, on a core of its own, and what it cost there.

Figures are a dictionary by the names of `FIGURES`; those that a case doesn't have are not in it.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import uvloop

from bench.load.client import Target
from bench.load.clip import clip
from bench.load.cycles import names, run_cycles
from bench.load.run import FIRST_PLAYERS, Load, Window, run
from bench.peers import Server, Start
from bench.process import TICKS_PER_S, Usage, cores, machine_cpu_s, on_core, pin_to, usage

Figures = dict[str, float]
Measure = Callable[[Start, float], Figures]
"""Start the server, put a load on it for so many seconds, end it."""

LOG_CHARACTERS = 3000

FIGURES = {
    "cpu_s_per_gb": "CPU seconds of the server's processes per gigabyte ingested or, with players, delivered",
    "cycles_per_cpu_s": "connect, createStream, publish, close: how many for a CPU second of the server's",
    "us_per_message": "CPU microseconds per message ingested",
    "children_cores": "what the server's children used of a core beside its own CPU time: pictures of streams",
    "kernel_share": "how much of the CPU time the kernel took, for sockets above all",
    "rss_mb": "resident memory of the server's processes at the window's end, MB",
    "kb_per_player": "the same less that with 16 players, for each of the others, kB",
    "delay_p50_ms": "from a publisher's sending to a player's reading",
    "delay_p99_ms": "",
    "delay_p999_ms": "",
    "delay_max_ms": "",
    "sends_per_s": "reads by the players: the server's sends, but for those that came together",
    "generator_cores": "the generator's own share of its core",
    "lateness_ms": "the worst that the generator sent a message after its time",
    "other_cores": "what neither server nor generator used of the machine, in cores: the noise",
    "load_average": "of the last minute, at the window's end",
    "refused": "of those that came in a rush",
    "last_s": "from the first one's coming to the last one's answer",
    "slowest_s": "from one's coming to its answer, the worst",
    "cpu_ms_each": "CPU milliseconds of the server for each that came, with all else that it did meanwhile",
    "tick_ms": "of the event loop, once a second, ms",
    "busy_cores": "what all processes use of a core with nobody connected",
    "pss_mb": "of all processes, what they share counted once, MB",
    "kb_each": "resident memory for each connection more, kB",
    "loop_delay_p99_ms": "of the media node's event loop: the worst of each second",
    "wall_kb_s": "sent to each open wall",
    "cpu_ms_per_viewer_s": "CPU milliseconds of the server's that a viewer by HLS costs each second",
    "reload_p50_ms": "from when a part is there to the answer that tells a viewer of it",
    "reload_p95_ms": "",
    "reload_p99_ms": "",
    "reload_max_ms": "",
    "part_p99_ms": "from a viewer's request for a part to its last byte",
    "reloads_per_s": "playlists that viewers got",
    "mbps_out": "to all viewers, Mbit/s",
    "lost": "messages that did not come through, and connections refused or lost",
}


@dataclass(frozen=True, slots=True)
class Case:
    """What publishers and players do."""

    publishers: int
    mbps: float
    chunk_size: int = 4096
    players: int = 0
    each: bool = False
    """Each player plays a stream of its own; what counts is what was ingested then."""

    def measure(self, start: Start, seconds: float) -> Figures:
        with pinned(start) as server:
            meter = Meter(server)
            target = Target.of(server.url, server.app)
            load = Load(
                target, clip(self.mbps), self.publishers, self.chunk_size, self.players, self.each, seconds=seconds
            )
            with on_generators_core(server):
                window = uvloop.run(run(load, meter))
        return self._figures(window, meter)

    def _figures(self, window: Window, meter: "Meter") -> Figures:
        size = window.bytes_out if self.players and not self.each else window.bytes_in
        found = {
            "cpu_s_per_gb": meter.cpu_s / size * 1e9,
            "children_cores": meter.children_s / window.seconds,
            "kernel_share": meter.kernel_share,
            "rss_mb": meter.last.rss_bytes / 1e6,
            "generator_cores": window.own_cpu,
            "lateness_ms": window.lateness_ms,
            "lost": window.missing + window.left_out + len(window.errors),
            **meter.noise(window.own_cpu, window.seconds),
        }
        if not self.players or self.each:
            found["us_per_message"] = meter.cpu_s / window.messages * 1e6
        if not self.players:
            return found
        grown = meter.last.rss_bytes - meter.before_players.rss_bytes
        found["kb_per_player"] = grown / 1e3 / max(1, self.players - FIRST_PLAYERS)
        found["sends_per_s"] = window.reads / window.seconds
        for name, share in (("p50", 0.5), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)):
            found[f"delay_{name}_ms"] = percentile(window.delays_ms, share)
        return found


@contextmanager
def pinned(start: Start) -> Iterator[Server]:
    """The server, on its core or, with several workers, cores; when the load fails, what it wrote goes to stderr."""
    with start() as server:
        pin_to(server.pid, cores(len(server.workers) or 1)[0])
        try:
            yield server
        except Exception:
            print(server.log()[-LOG_CHARACTERS:], file=sys.stderr)
            raise


def on_generators_core(server: Server) -> AbstractContextManager[None]:
    return on_core(cores(len(server.workers) or 1)[1])


def connect_cycles(start: Start, seconds: float) -> Figures:
    """A `Measure`: connect, createStream, publish and close, again and again."""
    with pinned(start) as server:
        meter = Meter(server)
        with on_generators_core(server):
            cycles = uvloop.run(run_cycles(Target.of(server.url, server.app), seconds, meter, names(server.keys)))
    return {
        "cycles_per_cpu_s": cycles.count / meter.cpu_s,
        "children_cores": meter.children_s / cycles.seconds,
        "kernel_share": meter.kernel_share,
        "rss_mb": meter.last.rss_bytes / 1e6,
        "generator_cores": cycles.own_cpu,
        "lost": len(cycles.errors),
        **meter.noise(cycles.own_cpu, cycles.seconds),
    }


class Meter:
    """The server's and the machine's counters: a load's Watcher."""

    last: Usage
    before_players: Usage

    def __init__(self, server: Server) -> None:
        self._server = server

    def _usage(self) -> Usage:
        workers = [usage(pid, alone=True) for pid in self._server.workers]
        if workers:
            return Usage(
                sum(each.cpu_s for each in workers),
                sum(each.kernel_s for each in workers),
                sum(each.rss_bytes for each in workers),
            )
        return usage(self._server.pid, alone=self._server.alone)

    def joining(self) -> None:
        self.before_players = self._usage()

    def begin(self) -> None:
        self._machine_s = machine_cpu_s()
        self._whole_s = usage(self._server.pid).cpu_s
        self._first = self._usage()

    def end(self) -> None:
        self.last = self._usage()
        self.cpu_s = max(self.last.cpu_s - self._first.cpu_s, 1 / TICKS_PER_S)
        self.kernel_share = (self.last.kernel_s - self._first.kernel_s) / self.cpu_s
        self.children_s = max(0.0, usage(self._server.pid).cpu_s - self._whole_s - self.cpu_s)
        self._machine_s = machine_cpu_s() - self._machine_s

    def noise(self, generator_cores: float, seconds: float) -> Figures:
        others = (self._machine_s - self.cpu_s - self.children_s) / seconds - generator_cores
        return {"other_cores": max(0.0, others), "load_average": os.getloadavg()[0]}


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value that `share` of them don't exceed; not a number without any."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("nan")
