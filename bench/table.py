"""Contests: the same case for several servers, in interleaved rounds, as medians and ratios.

Absolute figures depend on the machine and on what else it does. The ratio is taken round by round, between runs that
followed each other, and its median is what counts.
"""

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from statistics import median

from bench.measure import FIGURES, Figures, Measure, Start

COLUMNS = {
    "CPU s/GB": ("cpu_s_per_gb", "{:.2f}"),
    "us/message": ("us_per_message", "{:.1f}"),
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

    def ratio(self, server: str) -> float | None:
        """To the contest's last server, if this is another."""
        peer = list(self.rounds)[-1]
        if server == peer:
            return None
        name = self.contest.compared
        pairs = zip(self.rounds[server], self.rounds[peer], strict=True)
        return median(ours[name] / theirs[name] for ours, theirs in pairs)


def hold(contests: Iterable[Contest], rounds: int, seconds: float) -> list[Result]:
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
    headings = ["case", "server", "ratio", *COLUMNS]
    lines = ["| " + " | ".join(headings) + " |", "|---|---|" + "---:|" * (len(headings) - 2)]
    for result in results:
        for server in result.rounds:
            ratio = result.ratio(server)
            cells = _cells(result.median(server))
            row = [result.contest.name, server, "" if ratio is None else f"{ratio:.2f}"]
            row += [cells.get(heading, "") for heading in COLUMNS]
            lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines)


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
