"""What a check is, how a stream's own rules change it, and when its issues open and clear.

Figures stand in sentences with their unit, joined by a no-break space.

A level opens when its limit has been passed for the check's hold without a break, and clears when it has not been for
twice as long. During the first seconds of a session nothing is evaluated, but for what is known before it.

One cause opens one issue: a check opens nothing while another that tells the cause of it is open (`STANDS_STILL`), but
for one that has been within its limit for a minute, or that explains nothing (`Check.explains`)."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from operator import gt, lt
from typing import Final, Generic, Literal, NamedTuple, TypeVar

from ingest.contracts import Health, HealthRule, Issue
from ingest.contracts.figures import CHECK_NAMES

NBSP: Final = "\N{NO-BREAK SPACE}"


def span(seconds: float) -> str:
    """A length of time, as on all pages: 14 s, 1 min 52 s, 2 h 5 min, 6 d 4 h."""
    whole = max(0, int(seconds))
    for large, large_name, small, small_name in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= large:
            return f"{whole // large}{NBSP}{large_name} {whole % large // small}{NBSP}{small_name}"
    return f"{whole}{NBSP}s"


def lasting(seconds: float) -> str:
    """ ", for 14 s"; nothing for what has just begun."""
    return f", for {span(seconds)}" if seconds >= 1 else ""


def whole(value: float) -> str:
    """2,310"""
    return f"{value:,.0f}"


def kbps(value: float | None) -> str:
    return f"{whole(value or 0)}{NBSP}kbit/s"


def percent(value: float | None) -> str:
    return f"{whole(value or 0)}{NBSP}%"


def over(value: float, limit: float, unit: str, digits: int = 0) -> str:
    """The limit behind a figure that is shown with so many digits, such as " (limit 5 s)"; nothing where the figure,
    as it is shown, is no more than the limit.
    """
    return f" (limit {with_unit(limit, unit)})" if round(value, digits) > limit else ""


def under(value: float, limit: float, unit: str, digits: int = 0) -> str:
    return f" (limit {with_unit(limit, unit)})" if round(value, digits) < limit else ""


def with_unit(value: float, unit: str) -> str:
    """A unit of one sign, such as the x of times, stands close."""
    return f"{value:,g}{unit}" if unit == "x" else f"{value:,g}{NBSP}{unit}"


def times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


F = TypeVar("F")

Level = Literal["warning", "bad"]
LEVELS: Final[tuple[Level, ...]] = ("bad", "warning")
"""Worst first."""


class Passed(NamedTuple):
    level: Level
    value: float
    limit: float
    lasted_s: float


@dataclass(frozen=True, slots=True)
class Check(Generic[F]):
    """`value` and limits are in `unit`. Times in seconds."""

    code: str
    """One of CHECK_NAMES."""
    warning: float
    unit: str
    measure: Callable[[F], float | None]
    """None: there is nothing to evaluate."""
    title: Callable[[F, Passed], str]
    actual: Callable[[F, Passed], str]
    advice: str | Callable[[F, Passed], str]
    bad: float = inf
    """Infinite, or -infinite: there is only the warning."""
    hold_s: float = 0.0
    """For so long the limit has to be passed for an issue to open; it clears after twice as long."""
    expected: Callable[[F, Passed], str] | None = None
    """Where it isn't the limit in its unit."""
    passes: Callable[[float, float], bool] = gt
    """Of a value and a limit: `gt`, `ge` or `lt`."""
    measure_bad: Callable[[F], float | None] | None = None
    """By which the bad level is evaluated, where that is something else."""
    relapse: Callable[[F], float | None] | None = None
    """What must not pass the limit for the issue to clear, where it isn't `measure`."""
    in_silence: bool = False
    """It is evaluated while nothing arrives, too; the others then stand still."""
    warms_up: bool = True
    """It is not evaluated before the warm-up is over."""
    at_once: Callable[[F], bool] | None = None
    """Whether it opens without its hold, if its limit is passed."""
    is_current: bool = False
    """Its sentence is of now, too, while its limit isn't passed any more."""
    beside: Callable[[F], str] | None = None
    """A sentence of now behind the title; "": there is nothing to say."""
    explains: Callable[[F], bool] | None = None
    """Whether it may be the cause of others, while its limit is passed. None: always."""
    is_off: bool = False
    """It is evaluated where a stream's own rules switch it on, and nowhere else."""

    @property
    def name(self) -> str:
        return CHECK_NAMES[self.code]

    def is_bad(self, figures: F) -> bool:
        """Whether the bad level's limit is passed, where it is of another figure than the warning's."""
        value = None if self.measure_bad is None else self.measure_bad(figures)
        return value is not None and self.passes(value, self.bad)

    def limit(self, level: Level) -> float:
        return self.bad if level == "bad" else self.warning

    def expected_text(self, figures: F, passed: Passed) -> str:
        if self.expected is not None:
            return self.expected(figures, passed)
        return f"at {'least' if self.is_low else 'most'} {with_unit(passed.limit, self.unit)}"

    def advice_text(self, figures: F, passed: Passed) -> str:
        return self.advice if isinstance(self.advice, str) else self.advice(figures, passed)

    @property
    def is_low(self) -> bool:
        return self.passes is lt

    @property
    def levels(self) -> tuple[Level, ...]:
        return LEVELS if abs(self.bad) != inf else ("warning",)


def with_rules(checks: Iterable[Check[F]], rules: Mapping[str, HealthRule]) -> tuple[Check[F], ...]:
    """The checks with a stream's own limits and holds, without those that are off: by its rules, or by default.

    A bad level that would come before the warning comes with it.
    """
    return tuple(
        _with_rule(check, rule) if rule is not None else check
        for check in checks
        if (not check.is_off if (rule := rules.get(check.code)) is None else rule["enabled"])
    )


def _with_rule(check: Check[F], rule: HealthRule) -> Check[F]:
    warning = check.warning if rule["warning"] is None else rule["warning"]
    bad = check.bad if rule["bad"] is None else rule["bad"]
    if check.measure_bad is None:
        bad = min(warning, bad) if check.is_low else max(warning, bad)
    return replace(check, warning=warning, bad=bad, hold_s=check.hold_s if rule["hold_s"] is None else rule["hold_s"])


WARM_UP_S: Final = 10.0
EXPLAINS_S: Final = 60.0
"""For so long after it explained others last, an issue that stays open does: what is counted over a minute has it."""
NO_CAUSES: Final[Mapping[str, Sequence[str]]] = {}


Opens = Literal["held", "at once", "not"]
"""When a level opens whose limit is passed: after its hold, without it, or not now, as its cause is told."""


@dataclass(eq=False, repr=False, slots=True)
class _Latch:
    """One level of one check: since when its limit is passed, and whether it is open."""

    is_open: bool = False
    since: float = 0.0
    """Wall time, of the one that is open."""
    _over_since: float | None = None
    _well_since: float | None = None

    def update(self, is_over: bool, stays: bool, now: float, wall: float, hold_s: float, opens: "Opens") -> None:
        if self.is_open:
            if stays:
                self._well_since = None
                return
            if self._well_since is None:
                self._well_since = now
            if now - self._well_since >= 2 * hold_s:
                self.is_open = False
                self._over_since = self._well_since = None
        elif not is_over:
            self._over_since = None
        else:
            if self._over_since is None:
                self._over_since, self.since = now, wall
            held = opens == "at once" or now - self._over_since >= hold_s
            self.is_open = held and opens != "not"

    def well_s(self, now: float) -> float:
        """For how long it has been within its limit, while it is open."""
        return 0.0 if self._well_since is None else now - self._well_since

    def stand_still(self, for_s: float) -> None:
        if self._over_since is not None:
            self._over_since += for_s
        if self._well_since is not None:
            self._well_since += for_s


@dataclass(eq=False, repr=False, slots=True)
class _Row(Generic[F]):
    check: Check[F]
    issue: Issue | None = None
    is_over: bool = False
    """The warning's limit is passed, whether for its hold or not."""
    explains: bool = False
    """It tells the cause of others: its limit is passed, or was of late and it is open."""
    _explained_at: float = -inf
    _latches: dict[Level, _Latch] = field(default_factory=lambda: {level: _Latch() for level in LEVELS})
    is_at_rest: bool = False
    _title: str = ""

    def update(self, value: float | None, figures: F, now: float, wall: float, *, waits: bool) -> None:
        """`waits`: its cause is told, so that nothing opens."""
        check = self.check
        opens: Opens = "held"
        if waits:
            opens = "not"
        elif check.at_once is not None and check.at_once(figures):
            opens = "at once"
        self.is_over = value is not None and check.passes(value, check.warning)
        self.is_at_rest = True
        issue = None
        for level, latch in self._latches.items():
            measured = value if level == "warning" or check.measure_bad is None else check.measure_bad(figures)
            is_over = measured is not None and check.passes(measured, check.limit(level))
            latch.update(is_over, is_over or self._relapses(level, figures), now, wall, check.hold_s, opens)
            if is_over or latch.is_open:
                self.is_at_rest = False
            if latch.is_open and issue is None:
                since = min(other.since for other in self._latches.values() if other.is_open)
                issue = self._make_issue(level, measured, is_over, figures, since, now, wall)
        self.issue = issue
        self.explains = self.is_over and (check.explains is None or check.explains(figures))
        if self.explains:
            self._explained_at = now
        elif issue is not None:
            self.explains = now - self._explained_at <= EXPLAINS_S

    def _relapses(self, level: Level, figures: F) -> bool:
        """Whether the level stays open, though its limit isn't passed just now."""
        check = self.check
        lasting = None if check.relapse is None else check.relapse(figures)
        return lasting is not None and check.passes(lasting, check.limit(level))

    def _make_issue(
        self, level: Level, measured: float | None, is_over: bool, figures: F, since: float, now: float, wall: float
    ) -> Issue:
        """Back within its limit it still says how it was, since that is what it is open for, and for how long it has
        been well; its figures are of now."""
        check = self.check
        former = self.issue if self.issue is not None and self.issue["level"] == level and not is_over else None
        if measured is None:
            measured = former["value"] if former is not None else 0.0
        passed = Passed(level, measured, check.limit(level), wall - since)
        if former is None or check.is_current:
            self._title = check.title(figures, passed)
        well_s = self._latches[level].well_s(now)
        said = [self._title]
        if well_s:
            said.append(_recovering(well_s, check.hold_s))
        if check.beside is not None and (beside := check.beside(figures)):
            said.append(beside)
        return Issue(
            check=check.code,
            level=level,
            since=since,
            actual=check.actual(figures, passed),
            expected=check.expected_text(figures, passed),
            title=" ".join(said),
            advice=check.advice_text(figures, passed) if former is None else former["advice"],
            value=round(measured, 3),
            limit=passed.limit,
            unit=check.unit,
        )

    def stand_still(self, for_s: float) -> None:
        self._explained_at += for_s
        for latch in self._latches.values():
            latch.stand_still(for_s)


def _recovering(well_s: float, hold_s: float) -> str:
    return f"Within its limit for {span(well_s)}; clears after {span(2 * hold_s)}."


Causes = Mapping[str, Sequence[str]]
"""By check, the checks that tell the cause of it."""


class HealthEngine(Generic[F]):
    def __init__(
        self,
        started: float,
        checks: Sequence[Check[F]],
        *,
        warm_up_s: float = WARM_UP_S,
        causes: Causes = NO_CAUSES,
    ) -> None:
        self._begins = started + warm_up_s
        self._causes = causes
        self._evaluated = started
        self._rows: dict[str, _Row[F]] = {}
        """Of the checks that are not at rest: nearly always none."""
        self.set_rules(checks)
        self.issues: list[Issue] = []
        """Those that are open, worst first, in the table's order. Replaced as a whole, never changed in place."""

    def set_rules(self, checks: Sequence[Check[F]]) -> None:
        """From now on by other rules. What is open and still looked for stays so until it clears by them."""
        self._checks = checks
        self._limits = [(check.measure, check.passes, check.warning) for check in checks]
        self._worse = [check for check in checks if check.measure_bad is not None]
        former, self._rows = self._rows, {}
        for check in checks:
            if row := former.get(check.code):
                row.check = check
                self._rows[check.code] = row

    def update(self, figures: F, now: float, wall: float, *, flows: bool = True) -> list[Issue]:
        """To be called about once a second. `flows`: media arrive."""
        is_warm, rows = now >= self._begins, self._rows
        if is_warm and flows and not rows and self._is_quiet(figures):
            self._evaluated = now
            if self.issues:
                self.issues = []
            return self.issues
        found: list[Issue] = []
        seen: set[str] = set()
        for check in self._checks:
            if check.warms_up and not is_warm:
                continue
            if flows or check.in_silence:
                value = check.measure(figures)
                row = rows.get(check.code)
                if row is None:
                    if (value is None or not check.passes(value, check.warning)) and not check.is_bad(figures):
                        continue
                    row = rows[check.code] = _Row(check)
                waits = row.issue is None and self.stands_still(check.code, seen)
                row.update(value, figures, now, wall, waits=waits)
                if row.is_at_rest:
                    del rows[check.code]
            elif row := rows.get(check.code):
                row.stand_still(now - self._evaluated)
            if row is not None and row.explains:
                seen.add(check.code)
            if row is not None and row.issue is not None:
                found.append(row.issue)
        self._evaluated = now
        if len(found) > 1:
            found.sort(key=lambda issue: LEVELS.index(issue["level"]))
        self.issues = found
        return found

    def _is_quiet(self, figures: F) -> bool:
        """Whether no check finds anything: so it is nearly always, of hundreds of streams each second."""
        for measure, passes, limit in self._limits:
            value = measure(figures)
            if value is not None and passes(value, limit):
                return False
        return not any(check.is_bad(figures) for check in self._worse)

    @property
    def is_at_rest(self) -> bool:
        """No check has found anything of late: so it is nearly always."""
        return not self._rows

    def is_over(self, code: str) -> bool:
        """Whether the check's limit was passed when it was evaluated last, or its issue is open."""
        row = self._rows.get(code)
        return row is not None and (row.is_over or row.issue is not None)

    def stands_still(self, code: str, passed: Collection[str] = ()) -> bool:
        """Whether the cause of what the check would find is told: it is open, or is one of those before it in the
        table whose limit is `passed` just now, and would be told later than its effect otherwise."""
        return any(cause in passed or self.explains(cause) for cause in self._causes.get(code, ()))

    def explains(self, code: str) -> bool:
        """Whether the check's issue is open and tells the cause of others."""
        row = self._rows.get(code)
        return row is not None and row.issue is not None and row.explains

    def checking_s(self, now: float) -> float:
        """How long it takes until everything is evaluated."""
        return max(0.0, self._begins - now)

    @property
    def worst(self) -> Health:
        return self.issues[0]["level"] if self.issues else "good"
