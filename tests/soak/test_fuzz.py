"""Each fuzz target for as long as FUZZ_SECONDS says (ten minutes): `make soak ARGS="-k fuzz"`.

The corpus stays in var/fuzz, where the next run goes on from.
"""

import os
import subprocess
import sys

import pytest

from tests.fuzz.targets import TARGETS

SECONDS = int(os.environ.get("FUZZ_SECONDS", "600"))

pytestmark = [pytest.mark.soak, pytest.mark.timeout(SECONDS + 600)]


@pytest.mark.parametrize("name", TARGETS)
def test_a_long_run_finds_nothing(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", name, "--seconds", str(SECONDS)],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    with capsys.disabled():
        print(f"\n{done.stdout}", end="")  # noqa: T201
    assert done.returncode == 0
