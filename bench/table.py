"""Contests: the same case for several servers, in interleaved rounds, as medians and ratios.

Absolute figures depend on the machine and on what else it does. The ratio is taken round by round, between runs that
followed each other, and its median is what counts.
"""

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from math import isfinite
from pathlib import Path
from statistics import median

from bench.measure import FIGURES, Figures, Measure
from bench.peers import Start

COLUMNS = {
    "cores": ("busy_cores", "{:.3f}"),
    "PSS MB": ("pss_mb", "{:.0f}"),
    "tick ms": ("tick_ms", "{:.1f}"),
    "kB each": ("kb_each", "{:.1f}"),
    "refused": ("refused", "{:.0f}"),
    "last s": ("last_s", "{:.2f}"),
    "slowest s": ("slowest_s", "{:.2f}"),
    "CPU ms each": ("cpu_ms_each", "{:.1f}"),
    "loop p99 ms": ("loop_delay_p99_ms", "{:.1f}"),
    "kB/s a wall": ("wall_kb_s", "{:.1f}"),
    "CPU ms/viewer/s": ("cpu_ms_per_viewer_s", "{:.3f}"),
    "reloads/s": ("reloads_per_s", "{:.0f}"),
    "reload p50 ms": ("reload_p50_ms", "{:.1f}"),
    "p95": ("reload_p95_ms", "{:.1f}"),
    "p99": ("reload_p99_ms", "{:.1f}"),
    "max": ("reload_max_ms", "{:.1f}"),
    "part p99 ms": ("part_p99_ms", "{:.1f}"),
    "Mbit/s": ("mbps_out", "{:.1f}"),
    "CPU s/GB": ("cpu_s_per_gb", "{:.2f}"),
    "cycles/CPU s": ("cycles_per_cpu_s", "{:.0f}"),
    "us/message": ("us_per_message", "{:.1f}"),
    "kernel": ("kernel_share", "{:.0%}"),
    "children": ("children_cores", "{:.2f}"),
    "RSS MB": ("rss_mb", "{:.0f}"),
    "kB/player": ("kb_per_player", "{:.0f}"),
    "p50 ms": ("delay_p50_ms", "{:.1f}"),
    "p99 ms": ("delay_p99_ms", "{:.1f}"),
    "p99.9 ms": ("delay_p999_ms", "{:.1f}"),
    "max ms": ("delay_max_ms", "{:.1f}"),
    "sends/s": ("sends_per_s", "{:.0f}"),
    "lost": ("lost", "{:.0f}"),
    "generator": ("generator_cores", "{:.2f}"),
    "others": ("other_cores", "{:.2f}"),
}
"""Heading: (figure, format)."""


CALM_CORES = 0.25
"""What others may use of the machine in a round that counts."""


@dataclass(frozen=True, slots=True)
class Contest:
    name: str
    measure: Measure
    servers: Mapping[str, Start]
    """By the names in the table."""
    peer: str = ""
    """The one of them that the others are compared with, if any."""
    compared: str = "cpu_s_per_gb"
    """The figure of the ratio."""


@dataclass(frozen=True, slots=True)
class Result:
    contest: Contest
    rounds: dict[str, list[Figures]]
    """Of each server, in the order of the rounds."""

    def median(self, server: str) -> Figures:
        """Of each figure that is a number in some round."""
        rounds = self.rounds[server]
        found: Figures = {}
        for name in FIGURES:
            values = [figures[name] for figures in rounds if isfinite(figures.get(name, float("nan")))]
            if values:
                found[name] = median(values)
        return found

    def ratio(self, server: str) -> str:
        """The median of its ratios, if there is one; with a ~ if no round was calm."""
        ratios = self.ratios(server)
        return f"{'' if self._calm(server) else '~'}{median(ratios):.2f}" if ratios else ""

    def ratios(self, server: str) -> list[float]:
        """To the contest's peer, of each round. Rounds with noise are left out if there are others: a server that gets
        its core late handles more at once, and looks cheaper.
        """
        name = self.contest.compared
        return [ours[name] / theirs[name] for ours, theirs in self._calm(server) or self._pairs(server)]

    def _pairs(self, server: str) -> list[tuple[Figures, Figures]]:
        peer = self.contest.peer
        if not peer or server == peer or server not in self.rounds:
            return []
        return list(zip(self.rounds[server], self.rounds[peer], strict=True))

    def _calm(self, server: str) -> list[tuple[Figures, Figures]]:
        return [pair for pair in self._pairs(server) if max(one["other_cores"] for one in pair) <= CALM_CORES]


def run_rounds(contests: Iterable[Contest], rounds: int, seconds: float) -> list[Result]:
    """All contests, `rounds` times. Says on stderr what it does."""
    results = [Result(contest, {server: [] for server in contest.servers}) for contest in contests]
    for number in range(rounds):
        for result in results:
            for server, start in result.contest.servers.items():
                figures = result.contest.measure(start, seconds)
                result.rounds[server].append(figures)
                shown = "  ".join(f"{heading} {cell}" for heading, cell in _cells(figures).items())
                print(f"[{number + 1}/{rounds}] {result.contest.name}, {server}: {shown}", file=sys.stderr, flush=True)
    return results


def markdown(results: Iterable[Result]) -> str:
    """A table for each run of contests that have the same figures."""
    return "\n\n".join(_table(headings, list(some)) for headings, some in groupby(results, _headings))


def _headings(result: Result) -> list[str]:
    """The columns for which it has figures."""
    found = {heading for server in result.rounds for heading in _cells(result.median(server))}
    return [heading for heading in COLUMNS if heading in found]


def _table(headings: list[str], results: list[Result]) -> str:
    lines = [_line(["case", "server", "ratio", *headings]), "|---|---|" + "---:|" * (len(headings) + 1)]
    for result in results:
        for server in result.rounds:
            cells = _cells(result.median(server))
            row = [result.contest.name, server, result.ratio(server)]
            lines.append(_line(row + [cells.get(heading, "") for heading in headings]))
    return "\n".join(lines)


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def save(results: Iterable[Result], path: Path) -> None:
    """Every round's figures as JSON."""
    rows = [
        {"case": result.contest.name, "server": server, "round": number, "figures": figures}
        for result in results
        for server, rounds in result.rounds.items()
        for number, figures in enumerate(rounds)
    ]
    path.write_text(json.dumps({"figures": FIGURES, "rows": rows}, indent=1) + "\n")


def _cells(figures: Figures) -> dict[str, str]:
    return {heading: form.format(figures[name]) for heading, (name, form) in COLUMNS.items() if name in figures}
