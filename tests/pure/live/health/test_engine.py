"""When issues open and clear: hold, hysteresis, warm-up, silence, and rules of a stream's own."""

from collections.abc import Sequence
from math import inf
from operator import lt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.contracts import HealthRule, Issue
from ingest.live.health import CHECKS, Check, Figures, HealthEngine, with_rules
from tests.pure.live.payloads import START_WALL


def held(**fields: Any) -> Check[float]:
    """A check with a hold of 10 s, of a number itself."""
    row: dict[str, Any] = {
        "code": "held",
        "warning": 1.0,
        "bad": 2.0,
        "hold_s": 10.0,
        "unit": "s",
        "measure": lambda value: value,
        "title": lambda value, passed: f"{value:g}, {passed.limit:g} at most, for {passed.lasted_s:g} s.",
        "actual": lambda value, passed: f"{value:g} s",
        "advice": "Do something.",
    }
    return Check(**row | fields)


def judged(
    values: Sequence[float], check: Check[float] | None = None, *, silent: Sequence[int] = ()
) -> list[Issue | None]:
    """The issue after each second in which the value was measured, from the end of the warm-up on."""
    engine = HealthEngine(0.0, [check or held()])
    found: list[Issue | None] = []
    for second, value in enumerate(values):
        issues = engine.update(value, 10.0 + second, START_WALL + second, flows=second not in silent)
        found.append(issues[0] if issues else None)
    return found


def levels(values: Sequence[float], check: Check[float] | None = None, *, silent: Sequence[int] = ()) -> list[str]:
    return [issue["level"] if issue else "good" for issue in judged(values, check, silent=silent)]


def test_an_issue_opens_after_its_hold_and_clears_after_twice_as_long() -> None:
    found = levels([1.5] * 15 + [0.5] * 30)
    assert found.index("warning") == 10
    assert found[10:35] == ["warning"] * 25
    assert found[35:] == ["good"] * 10


def test_check_of_a_lower_limit_opens_when_the_value_falls_below_it() -> None:
    low = held(passes=lt, warning=70, bad=40)
    assert levels([70.0] * 20, low) == ["good"] * 20
    found = levels([69.0] * 20 + [39.0] * 20, low)
    assert (found.index("warning"), found.index("bad")) == (10, 30)


def test_a_short_trouble_opens_nothing_and_a_short_relief_clears_nothing() -> None:
    assert set(levels(([1.5] * 9 + [0.5]) * 5)) == {"good"}
    assert levels([1.5] * 11 + ([0.5] * 19 + [1.5]) * 3)[10:] == ["warning"] * 61


def test_levels_have_their_own_holds() -> None:
    found = levels([1.5] * 12 + [3.0] * 12 + [1.5] * 30)
    assert found.index("warning") == 10
    assert found.index("bad") == 22
    # The bad level clears 20 s after the value fell below it, and the warning stays.
    assert found.index("warning", 22) == 44
    assert found[-1] == "warning"


def test_issue_reports_value_limit_start_and_pending_clearing() -> None:
    found = judged([1.5] * 12 + [3.0] * 13 + [0.5] * 5)
    assert found[11] == {
        "check": "held",
        "level": "warning",
        "since": START_WALL,
        "actual": "1.5 s",
        "expected": "at most 1\u00a0s",
        "title": "1.5, 1 at most, for 11 s.",
        "advice": "Do something.",
        "value": 1.5,
        "limit": 1.0,
        "unit": "s",
    }
    worse, back = found[24], found[-1]
    assert worse is not None
    assert back is not None
    assert (worse["level"], worse["since"], worse["limit"]) == ("bad", START_WALL, 2.0), "since the trouble began"
    # It clears later. Its sentence says what it was, its figures what is now.
    recovering = "Within its limit for 4\u00a0s; clears after 20\u00a0s."
    assert back["title"] == f"{worse['title']} {recovering}"
    assert (back["actual"], back["value"]) == ("0.5 s", 0.5)


def test_current_title_follows_the_value_until_the_issue_clears() -> None:
    found = judged([3.0] * 13 + [0.5] * 5, held(is_current=True))
    assert found[-1] is not None
    assert found[-1]["title"].startswith("0.5, 2 at most")


def test_at_once_condition_opens_an_issue_without_its_hold() -> None:
    sure = held(at_once=lambda value: value > 2.5)
    assert levels([1.5] * 3 + [3.0] * 3, sure) == ["good"] * 3 + ["bad"] * 3
    assert levels([3.0] + [0.5] * 22, sure).index("good") == 21, "it clears as ever"


def two(values: Sequence[float], *, second_first: bool = False) -> list[list[str]]:
    """What is open of a cause (over 2) and its effect (over 1) after each second; the effect holds for shorter."""
    cause, effect = held(code="cause", warning=2.0, bad=inf), held(code="effect", bad=inf, hold_s=4.0)
    table = [effect, cause] if second_first else [cause, effect]
    engine = HealthEngine(0.0, table, causes={"effect": ("cause",)})
    found = []
    for second, value in enumerate(values):
        issues = engine.update(value, 10.0 + second, START_WALL + second)
        found.append([issue["check"] for issue in issues])
    return found


def test_effect_does_not_open_while_its_cause_is_over_its_limit() -> None:
    found = two([3.0] * 30)
    assert found[9:] == [[]] + [["cause"]] * 20, "the effect waits from the moment that the cause's limit is passed"
    found = two([1.5] * 6 + [3.0] * 20)
    assert found[5] == ["effect"]
    assert found[-1] == ["cause", "effect"], "what is open already stays"


def test_effect_held_back_by_its_cause_opens_once_the_cause_is_over() -> None:
    found = two([3.0] * 12 + [1.5] * 30)
    assert found[12:31] == [["cause"]] * 19
    assert found[32:] == [["effect"]] * 10
    found = two([3.0] * 6 + [1.5] * 6)
    assert found[6] == ["effect"], "the cause's limit was not passed for its hold: it was none"


def test_cause_listed_after_its_effect_does_not_delay_it_until_open() -> None:
    assert two([3.0] * 30, second_first=True)[5] == ["effect"]


def test_silence_pauses_holds_and_clearing_except_of_silence_checks() -> None:
    assert levels([1.5] * 20, silent=range(5, 8)).index("warning") == 13, "the silence is no part of the hold"
    assert levels([1.5] * 11 + [0.5] * 60, silent=range(20, 40)).index("good", 11) == 51, "nor of the relief"
    assert levels([1.5] * 20, held(in_silence=True), silent=range(20)).index("warning") == 10


def test_warm_up_suppresses_checks_except_of_facts_known_before() -> None:
    engine = HealthEngine(0.0, CHECKS)
    assert engine.update(Figures(idle_s=9.9), 9.9, START_WALL, flows=False) == []
    (issue,) = engine.update(Figures(idle_s=10.0), 10.0, START_WALL, flows=False)
    assert issue["check"] == "starving"
    (issue,) = HealthEngine(0.0, CHECKS).update(Figures(publishes=3), 1.0, START_WALL)
    assert issue["check"] == "flapping", "what is known before needs no warm-up"


def test_worst_issue_is_listed_first() -> None:
    engine = HealthEngine(0.0, CHECKS)
    found = engine.update(Figures(without_audio_s=6, without_video_s=40), 100.0, START_WALL)
    assert [(each["check"], each["level"]) for each in found] == [("no_video", "bad"), ("no_audio", "warning")]
    assert engine.worst == "bad"


def rule(**fields: Any) -> HealthRule:
    whole: dict[str, Any] = {"enabled": True, "warning": None, "bad": None, "hold_s": None} | fields
    return whole  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("rules", "idle_s", "expected"),
    [
        ({}, 3.0, "warning"),
        ({"starving": rule(enabled=False)}, 100.0, None),
        ({"starving": rule(warning=20.0, bad=60.0)}, 19.0, None),
        ({"starving": rule(warning=20.0, bad=60.0)}, 61.0, "bad"),
        ({"starving": rule(warning=20.0)}, 21.0, "bad"),
        ({"starving": rule(bad=60.0)}, 21.0, "warning"),
        ({"starving": rule(hold_s=5.0)}, 21.0, None),
        ({"gop_long": rule(enabled=False)}, 3.0, "warning"),
    ],
)
def test_stream_rules_override_limits_hold_and_enabling_of_a_check(
    rules: dict[str, HealthRule], idle_s: float, expected: str | None
) -> None:
    engine = HealthEngine(0.0, with_rules(CHECKS, rules))
    found = engine.update(Figures(idle_s=idle_s), 100.0, START_WALL, flows=False)
    assert [each["level"] for each in found] == ([expected] if expected else [])


def test_check_that_is_off_by_default_is_switched_on_by_stream_rules() -> None:
    still = Figures(still_s=11.0)
    assert {check.code for check in CHECKS if check.is_off} == {"frozen_picture", "silent_audio"}
    assert HealthEngine(0.0, with_rules(CHECKS, {})).update(still, 100.0, START_WALL) == []
    for rules, expected in (
        ({"frozen_picture": rule()}, ["warning"]),
        ({"frozen_picture": rule(warning=5.0, bad=10.0)}, ["bad"]),
        ({"frozen_picture": rule(enabled=False)}, []),
    ):
        engine = HealthEngine(0.0, with_rules(CHECKS, rules))
        assert [each["level"] for each in engine.update(still, 100.0, START_WALL)] == expected


def test_changed_rules_apply_to_an_open_issue() -> None:
    engine = HealthEngine(0.0, CHECKS)
    silent = Figures(idle_s=3.0)
    (before,) = engine.update(silent, 100.0, START_WALL, flows=False)
    engine.set_rules(with_rules(CHECKS, {"starving": rule(bad=2.5)}))
    (worse,) = engine.update(silent, 101.0, START_WALL + 1, flows=False)
    assert (worse["level"], worse["since"]) == ("bad", before["since"])
    engine.set_rules(with_rules(CHECKS, {"starving": rule(warning=30.0)}))
    assert engine.update(silent, 102.0, START_WALL + 2, flows=False) == []
    engine.set_rules(CHECKS)
    assert engine.update(silent, 103.0, START_WALL + 3, flows=False)
    engine.set_rules(with_rules(CHECKS, {"starving": rule(enabled=False)}))
    assert engine.update(silent, 104.0, START_WALL + 4, flows=False) == []


values = st.lists(st.floats(0, 4), min_size=1, max_size=120)


@given(st.lists(st.floats(0, 1), max_size=200))
def test_no_issue_of_values_that_never_pass_a_limit(found: list[float]) -> None:
    assert set(levels(found)) <= {"good"}


@given(values)
def test_issue_level_changes_only_after_its_whole_hold(found: list[float]) -> None:
    shown = levels(found)
    for at, level in enumerate(shown):
        before = shown[at - 1] if at else "good"
        if level != "good" and before == "good":
            assert all(value > 1 for value in found[at - 10 : at + 1]), "it opens by a warning that was held"
            assert at >= 10
        if level == "bad" and before != "bad":
            assert all(value > 2 for value in found[at - 10 : at + 1])
        if level == "good" and before != "good":
            assert all(value <= 1 for value in found[at - 20 : at + 1])


@given(values, st.floats(0.1, 5))
def test_a_higher_limit_opens_no_more_seconds(found: list[float], more: float) -> None:
    def seconds(check: Check[float]) -> int:
        return sum(level != "good" for level in levels(found, check))

    alone = held(hold_s=0.0)
    assert seconds(held(hold_s=0.0, warning=1 + more, bad=2 + more)) <= seconds(alone)
