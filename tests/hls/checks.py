"""What the validator's tables are made of."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

S = TypeVar("S")

Level = Literal["must", "should"]


@dataclass(frozen=True, slots=True)
class Check(Generic[S]):
    """`section` of draft-pantos-hls-rfc8216bis-20 ("B.1" and such: its appendices; another document is named). `find`
    yields a sentence for each place that is wrong."""

    name: str
    section: str
    says: str
    find: Callable[[S], Iterable[str]]
    level: Level = "must"


@dataclass(frozen=True, slots=True)
class Finding:
    name: str
    section: str
    level: Level
    words: str

    def __str__(self) -> str:
        return f"[{self.name}, {self.section}] {self.words}"


def run(checks: Iterable[Check[S]], subject: S) -> Iterator[Finding]:
    for check in checks:
        for words in check.find(subject):
            yield Finding(check.name, check.section, check.level, words)
