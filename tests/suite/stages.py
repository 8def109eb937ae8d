"""The suite's stages, one after the other but for one that runs beside the next.

pytest's arguments go to each stage; a path among them stands in place of the stage's own. The exit code is the first
that is not 0. The last line is pytest's, and counts the tests of all stages; one that could not run counts as a skipped
test.
"""

import fcntl
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.tools import MISSING, PACKAGES, find_tool

CLASSES = "TESTS_JAVA_CLASSES"
"""Where one stage leaves an archive of Spark's classes for all (tests/analytics/classes.py)."""

NO_TESTS = 5
"""pytest's exit code when it found none: not every stage has tests of every name."""

PLUGIN = "tests.suite.report"
SLOWEST = "--durations=30"

TOLD = "TESTS_SUITE"

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
    is_beside: bool = False
    """It runs while the next one does; what it prints stands with what the last one prints at its end."""


STAGES = (
    Stage(
        "PostgreSQL, Redis",
        "both_forms",
        ("tests/ingest", "tests/dashboard", "tests/analytics", "tests/rtmpweb"),
        environment={"TESTS_FORM": "production"},
        needs=("postgres", "redis-server"),
        workers=1,
        is_beside=True,
    ),
    Stage("SQLite, in memory; Spark; the production form's processes", "not measures_time and not alone and not soak"),
    Stage("What is measured alone", "alone", ("tests/e2e",), workers=1),
    Stage("What measures time, and mostly waits", "measures_time", ("tests/production", "tests/e2e"), workers=3),
)
"""The last also prints what all of them cost, and the closing line."""


@dataclass(frozen=True)
class Told:
    """What a stage's pytest is told by the suite, through its environment."""

    stage: str
    folder: Path
    """Where a stage leaves what the next ones go on from."""
    left_out: dict[str, str]
    """{stage that this machine could not run: why}"""
    began: float
    """When the stage did, in seconds since the epoch."""
    is_last: bool
    output: Path | None
    """Where what it prints goes, if not to the terminal."""
    beside: list[Path]
    """The outputs of the stages that run beside this one, each there when its stage has ended."""

    def as_environment(self) -> dict[str, str]:
        return {TOLD: json.dumps(asdict(self), default=str)}


def told() -> Told:
    found = json.loads(os.environ[TOLD])
    paths = {"folder": Path(found["folder"]), "output": found["output"] and Path(found["output"])}
    return Told(**{**found, **paths, "beside": [Path(name) for name in found["beside"]]})


@contextmanager
def alone(told: Told) -> Iterator[None]:
    """While the block runs, no other stage is in one: two that run at once may end at once."""
    with (told.folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def whole(output: Path) -> Path:
    """The name of an output when it is whole."""
    return output.with_suffix(".whole")


def files(stage: Stage) -> list[str]:
    """Those that name the stage's one mark: to collect all others, only to leave them out, takes seconds a worker."""
    if not stage.marks.isidentifier():
        return list(stage.paths)
    found = (file for path in stage.paths for file in sorted(Path(path).rglob("test_*.py")))
    return [str(file) for file in found if f"mark.{stage.marks}" in file.read_text()]


def run(stage: Stage, workers: str, given: Sequence[str], told: Told) -> int:
    """pytest's exit code."""
    paths = [] if any(Path(argument.partition("::")[0]).exists() for argument in given) else files(stage)
    count = stage.workers or int(workers)
    parallel = ["-n", str(count), "--no-loadscope-reorder"] if count > 1 else []
    environment = {name: value for name, value in os.environ.items() if name not in UNWANTED}
    options = ["-p", PLUGIN, "--tb=short", "-m", stage.marks, *([SLOWEST] if told.is_last else [])]
    command = [sys.executable, "-m", "pytest", *options, *parallel, *given, *paths]
    with told.output.open("wb") if told.output else nullcontext() as output:
        code = subprocess.run(
            command,
            env=environment
            | stage.environment
            | {CLASSES: str(told.folder / "java-classes.jsa")}
            | told.as_environment(),
            stdout=output,
            stderr=subprocess.STDOUT if output else None,
            check=False,
        ).returncode
    if told.output:
        told.output.rename(whole(told.output))
    return code


def main(workers: str, given: Sequence[str], stages: Sequence[Stage] = STAGES) -> int:
    codes: dict[str, Future[int]] = {}
    left_out: dict[str, str] = {}
    beside: list[Path] = []
    with tempfile.TemporaryDirectory(prefix="rtmpweb-suite-") as name, ThreadPoolExecutor() as pool:
        folder = Path(name)
        for stage in stages:
            print(f"\n{stage.name}:", flush=True)  # noqa: T201
            missing = [tool for tool in stage.needs if find_tool(tool) is None]
            if missing:
                left_out[stage.name] = f"{MISSING}{', '.join(PACKAGES[tool] for tool in missing)} (Debian packages)"
                print(f"not tested on this machine: it {left_out[stage.name]}", flush=True)  # noqa: T201
                continue
            output = folder / f"beside-{len(beside)}.txt" if stage.is_beside else None
            told = Told(stage.name, folder, left_out, time.time(), stage is stages[-1], output, list(beside))
            codes[stage.name] = pool.submit(run, stage, workers, given, told)
            if output:
                beside.append(whole(output))
            else:
                wait(codes.values())  # Before what is next, which may measure time.
    ran = {name: code.result() for name, code in codes.items() if code.result() != NO_TESTS}
    failed = {name: code for name, code in ran.items() if code}
    for name, code in failed.items():  # What fails after pytest's closing line is else hardly seen.
        print(f"{name}: pytest ended with {code}", file=sys.stderr)  # noqa: T201
    return next(iter(failed.values()), 0) if ran else NO_TESTS
