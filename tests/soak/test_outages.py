"""The tests of tests/production/outages with outages of half a minute, and with the limits that production has."""

import os
import subprocess
import sys

import pytest

from tests.background import ROOT

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]


def test_half_a_minute_without_each_part(capsys: pytest.CaptureFixture[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "tests/production/outages", "-q", "--tb=short"],
        cwd=ROOT,
        env=os.environ | {"TESTS_LENGTH": "long"},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    with capsys.disabled():
        print(f"\n{done.stdout}", end="")  # noqa: T201
    assert done.returncode == 0
