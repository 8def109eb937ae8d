"""Subjects of HLS that are checked by the rules of rules.txt, and the findings."""

import re
from collections.abc import Callable, Iterable
from inspect import signature
from pathlib import Path
from typing import Any, Final, NamedTuple

RULES: Final = (Path(__file__).parent / "rules.txt").read_text()

Places = Iterable[str]
"""Each place that breaks a rule, with its values."""


class Finding(NamedTuple):
    name: str
    section: str
    words: str


class Checked:
    """A subject with rules, which rules.txt lists. The method of a rule yields each place that breaks it.

    A method with arguments gets those of one of the `items`, and the name of the item precedes its words.
    """

    def items(self) -> Iterable[tuple[Any, ...]]:
        """(name, arguments) of each item."""
        return ()

    @classmethod
    def rules(cls) -> dict[str, tuple[str, str]]:
        """(section, words) of each rule, by its name."""
        (rows,) = re.findall(rf"^\[{cls.__name__}\]\n((?:.+\n)+)", RULES, re.MULTILINE)
        split = [row.split(" ", 2) for row in rows.splitlines()]
        return {name: (section, words) for section, name, words in split}

    def findings(self) -> list[Finding]:
        found = []
        for name, (section, words) in self.rules().items():
            find: Callable[..., Places] = getattr(self, name.replace("-", "_"))
            if signature(find).parameters:
                places = [f"{item}: {place}" for item, *arguments in self.items() for place in find(*arguments)]
            else:
                places = list(find())
            found += [Finding(name, section, f"{words}: {place}") for place in places]
        return found
