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
    """By the names in the table; the last is what the others are compared with."""
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
        """To the contest's last server, if this is another; with a ~ if no round was calm. Rounds with noise are left
        out if there are others: a server that gets its core late handles more at once, and looks cheaper.
        """
        peer = list(self.rounds)[-1]
        if server == peer:
            return ""
        name = self.contest.compared
        pairs = list(zip(self.rounds[server], self.rounds[peer], strict=True))
        calm = [pair for pair in pairs if max(figures["other_cores"] for figures in pair) <= CALM_CORES]
        found = median(ours[name] / theirs[name] for ours, theirs in calm or pairs)
        return f"{'' if calm else '~'}{found:.2f}"


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
