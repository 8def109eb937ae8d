"""The node's time of day, while the machine's clock is set, leaps and drifts."""

import logging
from itertools import pairwise

import pytest

from ingest.clock import SteadyClock
from tests.ingest.live.payloads import START_WALL

HOUR = 3600.0


class Machine:
    """Its clock, and the time that passes."""

    def __init__(self) -> None:
        self.passed = 100.0
        self.set_by = 0.0
        self.steady = SteadyClock(lambda: START_WALL + self.passed + self.set_by, lambda: self.passed)

    def go_on(self, seconds: int) -> list[float]:
        """What the steady clock says at each second, as seconds since the time at which all of them agreed."""
        found = []
        for _ in range(seconds):
            self.passed += 1.0
            found.append(self.steady.now() - START_WALL - 100.0)
        return found


@pytest.mark.parametrize("leap_s", [HOUR, -HOUR, 86_400 * 365, 10.0, -10.0])
def test_a_leap_that_passes_is_not_followed(leap_s: float, caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    before = machine.go_on(5)
    machine.set_by = leap_s
    during = machine.go_on(33)
    machine.set_by = 0.0
    after = machine.go_on(5)
    assert [*before, *during, *after] == pytest.approx(range(1, 44))
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(said) == 2
    assert f"leapt by {leap_s:+.0f} s" in said[0]
    assert said[1] == "The machine's clock is back."


@pytest.mark.parametrize("leap_s", [HOUR, -HOUR])
def test_one_that_lasts_is_followed_at_once_after_a_minute(leap_s: float) -> None:
    machine = Machine()
    machine.set_by = leap_s
    said = machine.go_on(70)
    assert said[:60] == pytest.approx(range(1, 61))
    assert said[61:] == pytest.approx([leap_s + second for second in range(62, 71)])


def test_a_clock_that_leaps_about_is_not_followed_before_it_rests() -> None:
    machine = Machine()
    said = []
    for leap_s in (HOUR, -HOUR, 2 * HOUR, 60.0):
        machine.set_by = leap_s
        said += machine.go_on(40)
    assert said == pytest.approx(range(1, 161))
    assert machine.go_on(30)[-1] == pytest.approx(190 + 60.0)


@pytest.mark.parametrize("set_by", [2.0, -2.0])
def test_what_is_off_by_seconds_is_followed_slowly(set_by: float, caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    machine.set_by = set_by
    said = machine.go_on(60)
    assert all(0.94 < after - before < 1.06 for before, after in pairwise(said))
    assert said[-1] == pytest.approx(60 + set_by)
    assert not caplog.records
