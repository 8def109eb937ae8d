"""A short run of each fuzz target. `make soak` has the long one, and CONTRIBUTING.md what to do with a find."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from random import Random

import pytest

from tests.fuzz.targets import PLANTED, TARGETS

RUNS = 1000


@pytest.mark.parametrize("name", TARGETS)
def test_targets_take_seeds_and_damaged_seeds_without_a_fault(name: str) -> None:
    """Without a fuzzer, hence on every platform."""
    target = TARGETS[name]
    random = Random(name)
    for data in target.seeds():
        target.run(data[: target.max_input_bytes])
        damaged = bytearray(data[: target.max_input_bytes])
        for _ in range(min(len(damaged), 3)):
            damaged[random.randrange(len(damaged))] = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))
        target.run(bytes(damaged))


@pytest.mark.matrix
@pytest.mark.timeout(600)
def test_a_short_run_finds_the_planted_fault_and_nothing_else(tmp_path: Path) -> None:
    """In a process of its own, as libFuzzer ends it."""
    if find_spec("atheris") is None:
        pytest.skip("needs atheris (PyPI, for Linux on x86-64 and Python up to 3.13)")
    run = [sys.executable, "-m", "tests.fuzz", *TARGETS, "planted", "--corpus", str(tmp_path), "--runs", str(RUNS)]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    for name in TARGETS:
        assert f"{name}: {RUNS} executions" in done.stdout, done.stdout + done.stderr[-2000:]
        assert list((tmp_path / name / "finds").iterdir()) == []
    assert "the planted fault" in done.stdout
    assert done.returncode == 1
    (find,) = (tmp_path / "planted/finds").iterdir()
    with pytest.raises(ValueError, match="the planted fault"):
        PLANTED.run(find.read_bytes())
