"""Subjects of HLS that are checked by the rules of rules.txt, and the findings."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

RULES: Final = (Path(__file__).parent / "rules.txt").read_text()

Level = Literal["must", "should"]
Places = Iterable[str]
"""Each place that breaks a rule, with its values."""


@dataclass(frozen=True, slots=True)
class Finding:
    name: str
    section: str
    level: Level
    words: str

    def __str__(self) -> str:
        return f"[{self.name}, {self.section}] {self.words}"


class Checked:
    """A subject with rules, which rules.txt lists. The method of a rule yields each place that breaks it."""

    @classmethod
    def rules(cls) -> dict[str, tuple[str, Level, str]]:
        """(section, level, words) of each rule, by its name."""
        (rows,) = re.findall(rf"^\[{cls.__name__}\]\n((?:.+\n)+)", RULES, re.MULTILINE)
        split = [row.split(" ", 3) for row in rows.splitlines()]
        return {
            name: (section, "must" if level == "must" else "should", words) for level, section, name, words in split
        }

    def findings(self) -> list[Finding]:
        found = []
        for name, (section, level, words) in self.rules().items():
            places: Iterable[str] = getattr(self, name.replace("-", "_"))()
            found += [Finding(name, section, level, f"{words}: {place}") for place in places]
        return found


def faults(findings: Iterable[Finding]) -> list[str]:
    return [str(finding) for finding in findings if finding.level == "must"]


def advice(findings: Iterable[Finding]) -> list[str]:
    return [str(finding) for finding in findings if finding.level == "should"]
