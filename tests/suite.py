"""`make test`: the suite's stages, one after the other: `python -m tests.suite WORKERS [PYTEST'S ARGUMENTS ...]`.

The arguments go to each stage; a path among them stands in place of the stage's own. The exit code is the first that is
not 0. The last line is pytest's, and counts the tests of all stages; one that could not run counts as a skipped test.
"""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from tests.tools import MISSING, PACKAGES, find_tool

NO_TESTS = 5
"""pytest's exit code when it found none: not every stage has tests of every name."""


@dataclass(frozen=True)
class Stage:
    name: str
    marks: str
    paths: tuple[str, ...] = ()
    parallel: bool = False
    environment: dict[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    """Programs without which there is nothing to run it on."""


STAGES = (
    Stage(
        "SQLite, in memory, and the production form's processes",
        "not spark and not measures_time and not soak",
        parallel=True,
    ),
    Stage(
        "Spark, whose Java would keep real encoders and browsers waiting",
        "spark and not soak",
        ("tests/analytics", "tests/production", "tests/e2e"),
        parallel=True,
    ),
    Stage(
        "PostgreSQL, Redis",
        "both_forms",
        ("tests/ingest", "tests/dashboard", "tests/analytics", "tests/rtmpweb"),
        parallel=True,
        environment={"TESTS_FORM": "production"},
        needs=("postgres", "redis-server"),
    ),
    Stage("What measures time, alone", "measures_time", ("tests/production", "tests/e2e")),
)
"""The last has the machine for itself; it also prints the closing line."""


def run(stage: Stage, workers: str, given: list[str], tally: Path, left_out: dict[str, str]) -> int:
    """pytest's exit code. `left_out`: the stages that this machine could not run, and why."""
    paths = [] if any(Path(argument.partition("::")[0]).exists() for argument in given) else stage.paths
    parallel = ["-n", workers, "--no-loadscope-reorder"] if stage.parallel else []
    # On a CI server pytest would show values whole, and one of a megabyte would hide what else failed.
    environment = {name: value for name, value in os.environ.items() if name not in ("CI", "BUILD_NUMBER")}
    told = {"TESTS_TALLY": str(tally), "TESTS_LEFT_OUT": json.dumps(left_out)}
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "tests.tally",
            "--tb=short",
            "-m",
            stage.marks,
            *parallel,
            *given,
            *paths,
        ],
        env=environment | stage.environment | told,
        check=False,
    ).returncode


def main(workers: str, given: list[str]) -> int:
    codes: list[int] = []
    left_out: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="rtmpweb-suite-") as folder:
        for stage in STAGES:
            print(f"\n{stage.name}:", flush=True)  # noqa: T201
            missing = [name for name in stage.needs if find_tool(name) is None]
            if missing:
                left_out[stage.name] = f"{MISSING}{', '.join(PACKAGES[name] for name in missing)} (Debian packages)"
                print(f"not tested on this machine: it {left_out[stage.name]}", flush=True)  # noqa: T201
                continue
            codes.append(run(stage, workers, given, Path(folder) / "tally.json", left_out))
    ran = [code for code in codes if code != NO_TESTS]
    return next((code for code in ran if code), 0) if ran else NO_TESTS


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
