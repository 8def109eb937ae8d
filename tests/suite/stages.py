"""The suite's stages, one after the other.

pytest's arguments go to each stage; a path among them stands in place of the stage's own. The exit code is the first
that is not 0. The last line is pytest's, and counts the tests of all stages; one that could not run counts as a skipped
test.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.suite.told import Told
from tests.tools import MISSING, PACKAGES, find_tool

NO_TESTS = 5
"""pytest's exit code when it found none: not every stage has tests of every name."""

PLUGINS = ("tests.suite.tally", "tests.suite.costs")

UNWANTED = (
    # On a CI server pytest would show values whole, and one of a megabyte would hide what else failed.
    "CI",
    "BUILD_NUMBER",
    # The hundreds of processes that the tests start would each compile the project anew.
    "PYTHONDONTWRITEBYTECODE",
)
"""Of the environment that the suite was started in."""


@dataclass(frozen=True)
class Stage:
    name: str
    marks: str
    paths: tuple[str, ...] = ()
    workers: int | None = None
    """How many there are, if not as many as were asked for."""
    environment: dict[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    """Programs without which there is nothing to run it on."""


STAGES = (
    Stage(
        "SQLite, in memory; Spark; the production form's processes",
        "not measures_time and not soak",
    ),
    Stage(
        "PostgreSQL, Redis",
        "both_forms",
        ("tests/ingest", "tests/dashboard", "tests/analytics", "tests/rtmpweb"),
        environment={"TESTS_FORM": "production"},
        needs=("postgres", "redis-server"),
    ),
    Stage("What measures time, and mostly waits", "measures_time", ("tests/production", "tests/e2e"), workers=2),
)
"""The last also prints what all of them cost, and the closing line."""


def run(stage: Stage, workers: str, given: Sequence[str], told: Told) -> int:
    """pytest's exit code."""
    paths = [] if any(Path(argument.partition("::")[0]).exists() for argument in given) else stage.paths
    count = stage.workers or int(workers)
    parallel = ["-n", str(count), "--no-loadscope-reorder"] if count > 1 else []
    environment = {name: value for name, value in os.environ.items() if name not in UNWANTED}
    plugins = [word for plugin in PLUGINS for word in ("-p", plugin)]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, "--tb=short", "-m", stage.marks, *parallel, *given, *paths],
        env=environment | stage.environment | told.as_environment(),
        check=False,
    ).returncode


def main(workers: str, given: Sequence[str], stages: Sequence[Stage] = STAGES) -> int:
    codes: list[int] = []
    left_out: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="rtmpweb-suite-") as name:
        folder = Path(name)
        for stage in stages:
            print(f"\n{stage.name}:", flush=True)  # noqa: T201
            missing = [tool for tool in stage.needs if find_tool(tool) is None]
            if missing:
                left_out[stage.name] = f"{MISSING}{', '.join(PACKAGES[tool] for tool in missing)} (Debian packages)"
                print(f"not tested on this machine: it {left_out[stage.name]}", flush=True)  # noqa: T201
                continue
            told = Told(stage.name, folder, left_out, began=time.time(), is_last=stage is stages[-1])
            codes.append(run(stage, workers, given, told))
    ran = [code for code in codes if code != NO_TESTS]
    return next((code for code in ran if code), 0) if ran else NO_TESTS
