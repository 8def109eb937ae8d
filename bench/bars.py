"""What the server is to keep, and whether it did: a line for each bound."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from bench.peers import rtmpweb
from bench.table import Result

RATIO = "ratio"
FLUSH_100 = f"{rtmpweb.NAME}, flush 100 ms"


@dataclass(frozen=True, slots=True)
class Bar:
    """`figure` of the case is `bound` at most, or at least."""

    case: str
    figure: str
    bound: float
    unit: str
    server: str = rtmpweb.NAME
    at_least: bool = False

    def values(self, result: Result) -> list[float]:
        """Of each round that has it."""
        if self.figure == RATIO:
            return result.ratios(self.server)
        return [figures[self.figure] for figures in result.rounds.get(self.server, []) if self.figure in figures]

    def line(self, values: Sequence[float]) -> list[str]:
        middle = median(values)
        met = middle >= self.bound if self.at_least else middle <= self.bound
        kept = "yes" if met else "no"
        spread = f"{min(values):.3g} to {max(values):.3g}" if len(values) > 1 else ""
        name = f"{self.case}{', 100 ms' if self.server == FLUSH_100 else ''}: {self.unit}"
        return [name, f"{'>=' if self.at_least else '<='} {self.bound:g}", f"{middle:.3g}", spread, kept]


BARS = [
    Bar("fan-out 300x5 Mbps", RATIO, 0.95, "CPU/GB, x nginx"),
    Bar("fan-out 300x5 Mbps", "delay_p50_ms", 8, "p50 ms"),
    Bar("fan-out 300x5 Mbps", "delay_p99_ms", 40, "p99 ms"),
    Bar("fan-out 300x5 Mbps", RATIO, 0.45, "CPU/GB, x nginx", FLUSH_100),
    Bar("fan-out 300x1 Mbps", RATIO, 1.0, "CPU/GB, x nginx"),
    Bar("fan-out 300x1 Mbps", RATIO, 0.4, "CPU/GB, x nginx", FLUSH_100),
    Bar("ingest 100x5 Mbps, chunk 4096", RATIO, 1.7, "CPU/GB, x nginx"),
    Bar("ingest 100x1 Mbps, chunk 4096", RATIO, 2.0, "CPU/GB, x nginx"),
    Bar("ingest 50x5 Mbps, chunk 128", RATIO, 0.55, "CPU/GB, x nginx"),
    Bar("played and recorded 100x5 Mbps", RATIO, 2.0, "CPU/GB, x nginx doing the same"),
    Bar("played and recorded 100x1 Mbps", RATIO, 2.4, "CPU/GB, x nginx doing the same"),
    Bar("connect cycles node", "cycles_per_cpu_s", 250, "a CPU second, SQLite", at_least=True),
    Bar("connect cycles production", "cycles_per_cpu_s", 200, "a CPU second, PostgreSQL", at_least=True),
    *(
        bar
        for form, store in (("node", "SQLite"), ("production", "PostgreSQL"))
        for bar in (
            Bar(f"300 publishers within 1 s, {form}", "refused", 0, f"refused, {store}"),
            Bar(f"300 publishers within 1 s, {form}", "last_s", 3, f"s until the last is in, {store}"),
            Bar(f"300 publishers within 1 s, {form}", "delay_max_ms", 100, f"the others' latest packet, ms, {store}"),
        )
    ),
    Bar("1000 players within 2 s", "refused", 0, "refused"),
    Bar("1000 players within 2 s", "last_s", 5, "s until the last is in"),
    Bar("the second of 300 streams", "tick_ms", 15, "ms"),
    Bar("nobody connected, embedded", "busy_cores", 0.02, "cores"),
    Bar("nobody connected, embedded", "pss_mb", 280, "MB"),
    Bar("nobody connected, production", "pss_mb", 700, "MB"),
    Bar("players that wait", "kb_each", 15, "kB each"),
    Bar("publishers without media", "kb_each", 100, "kB each"),
    Bar("300 streams, 10 walls, 300 players", "loop_delay_p99_ms", 20, "p99 of the loop's delay, ms"),
]


def lines(results: Iterable[Result]) -> list[list[str]]:
    """Of the bars of which something was measured."""
    by_name = {result.contest.name: result for result in results}
    found = ((bar, bar.values(by_name[bar.case])) for bar in BARS if bar.case in by_name)
    return [bar.line(values) for bar, values in found if values]


def markdown(results: Iterable[Result]) -> str:
    rows = [["what", "bound", "median", "rounds", "kept"], ["---"] * 5, *lines(results)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
