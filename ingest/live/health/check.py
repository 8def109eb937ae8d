"""A row of a table of checks, and how a stream's own rules change it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf
from operator import gt, lt
from typing import Final, Generic, Literal, NamedTuple, TypeVar

from ingest.contracts import HealthRule
from ingest.live.health.words import NBSP

F = TypeVar("F")
"""The figures that are judged."""

Level = Literal["warning", "bad"]
LEVELS: Final[tuple[Level, ...]] = ("bad", "warning")
"""Worst first."""


class Passed(NamedTuple):
    """An issue that is to be put into words."""

    level: Level
    value: float
    limit: float
    lasted_s: float


@dataclass(frozen=True, slots=True)
class Check(Generic[F]):
    """`value` and limits are in `unit`. Times in seconds."""

    code: str
    name: str
    """For headings and choices."""
    warning: float
    bad: float
    """Infinite, or -infinite: there is only the warning."""
    hold_s: float
    """For so long the limit has to be passed for an issue to open; it clears after twice as long."""
    unit: str
    measure: Callable[[F], float | None]
    """None: there is nothing to judge."""
    title: Callable[[F, Passed], str]
    """The sentence."""
    actual: Callable[[F, Passed], str]
    advice: str | Callable[[F, Passed], str]
    expected: Callable[[F, Passed], str] | None = None
    """Where it isn't the limit in its unit."""
    passes: Callable[[float, float], bool] = gt
    """Of a value and a limit: `gt`, `ge` or `lt`."""
    measure_bad: Callable[[F], float | None] | None = None
    """By which the bad level is judged, where that is something else."""
    relapse: Callable[[F], float | None] | None = None
    """What must not pass the limit for the issue to clear, where it isn't `measure`."""
    in_silence: bool = False
    """It is judged while nothing arrives, too; the others then stand still."""
    warms_up: bool = True
    """It is not judged before the warm-up is over."""

    def is_bad(self, figures: F) -> bool:
        """Whether the bad level's limit is passed, where it is of another figure than the warning's."""
        value = None if self.measure_bad is None else self.measure_bad(figures)
        return value is not None and self.passes(value, self.bad)

    def limit(self, level: Level) -> float:
        return self.bad if level == "bad" else self.warning

    def says_expected(self, figures: F, passed: Passed) -> str:
        if self.expected is not None:
            return self.expected(figures, passed)
        return f"{passed.limit:,g}{NBSP}{self.unit} at {'least' if self.is_low else 'most'}"

    def says_advice(self, figures: F, passed: Passed) -> str:
        return self.advice if isinstance(self.advice, str) else self.advice(figures, passed)

    @property
    def is_low(self) -> bool:
        """What is under its limits is wrong."""
        return self.passes is lt

    @property
    def levels(self) -> tuple[Level, ...]:
        return LEVELS if abs(self.bad) != inf else ("warning",)


def ruled(checks: Iterable[Check[F]], rules: Mapping[str, HealthRule]) -> tuple[Check[F], ...]:
    """The checks with a stream's own limits and holds, without those that are off.

    A bad level that would come before the warning comes with it.
    """
    return tuple(
        _ruled(check, rule) if rule is not None else check
        for check in checks
        if (rule := rules.get(check.code)) is None or rule["enabled"]
    )


def _ruled(check: Check[F], rule: HealthRule) -> Check[F]:
    warning = check.warning if rule["warning"] is None else rule["warning"]
    bad = check.bad if rule["bad"] is None else rule["bad"]
    if check.measure_bad is None:
        bad = min(warning, bad) if check.is_low else max(warning, bad)
    return replace(check, warning=warning, bad=bad, hold_s=check.hold_s if rule["hold_s"] is None else rule["hold_s"])
