"""What other tests do, for as long as a machine can be spared: `make soak`, or `make soak ARGS="-k fuzz"`, `kills`,
`outages`, `reconnecting` or `two_am`."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.background import ROOT
from tests.e2e.test_two_am import HEALTHY, at_night
from tests.production.test_kills import kill_nodes
from tests.production.test_reconnecting import reconnect
from tests.pure.test_fuzz import TARGETS

pytestmark = pytest.mark.soak

FUZZ_SECONDS = int(os.environ.get("FUZZ_SECONDS", "600"))
NIGHT_SECONDS = 360
"""The longest mean of a health check is of five minutes."""


def run(capsys: pytest.CaptureFixture[str], *words: str, **environment: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=ROOT,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    with capsys.disabled():
        print(f"\n{done.stdout}", end="")  # noqa: T201
    assert done.returncode == 0


@pytest.mark.timeout(FUZZ_SECONDS + 600)
@pytest.mark.parametrize("name", TARGETS)
def test_a_long_run_of_the_fuzzer_finds_nothing(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The corpus stays in var/fuzz, where the next run goes on from."""
    run(capsys, "tests.fuzz", name, "--seconds", str(FUZZ_SECONDS))


@pytest.mark.timeout(3 * 3600)
def test_kills_by_the_hundred_leave_nothing_behind(tmp_path: Path) -> None:
    """KILLS_SEED in the environment repeats a run's moments."""
    kill_nodes(tmp_path, kills=500, nodes=1)


@pytest.mark.timeout(1800)
def test_outages_of_half_a_minute_at_the_limits_of_production(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "pytest", "tests/production/outages", "-q", "--tb=short", TESTS_LENGTH="long")


@pytest.mark.timeout(900)
def test_five_minutes_of_reconnecting_leave_one_session_each(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    try:
        reconnect(tmp_path, 300, seed)
    except AssertionError as fault:
        raise AssertionError(f"seed {seed}: {fault}") from fault


@pytest.mark.timeout(600)
def test_the_healthy_streams_of_two_am_raise_nothing_in_six_minutes(tmp_path: Path) -> None:
    with at_night(tmp_path, HEALTHY) as night:
        night.stays_healthy(HEALTHY, NIGHT_SECONDS)
