"""`make quick`: linters, types, import rules and the tests nearest to what was changed: under a minute.

`python -m tests.suite.quick [SINCE]`: for what differs from that commit; without one, from the last commit, or for what
that changed.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.suite.stages import NO_TESTS, UNWANTED

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent

SECONDS = 45
"""Until no further test begins: the tests nearest to the change have come first."""

NO_TIME = "no time left"
"""Why those are skipped that have not begun by then."""

PARALLEL = "2"
LEFT_OUT = ("spark", "browser", "clients", "serve", "production", "measures_time", "alone", "soak")
"""Marks of what starts real programs."""

CHECKS = {
    "ruff check": ["ruff", "check", "."],
    "ruff format": ["ruff", "format", "--check", "."],
    "import rules": ["lint-imports"],
    "types": ["mypy", "rtmpweb", "dashboard", "analytics", "ingest", "tests", "bench"],
}


@dataclass(frozen=True)
class Done:
    name: str
    code: int
    seconds: float
    output: str


def changed(since: str) -> list[Path]:
    """Python files and what pages are made of; files that git does not track yet count, those that are gone don't."""
    if not since:
        since = "HEAD" if _git("status", "--porcelain") else "HEAD~1"
    names = {*_git("diff", "--name-only", since), *_git("ls-files", "--others", "--exclude-standard")}
    return sorted(path for name in names if (path := ROOT / name).is_file())


def _git(*words: str) -> list[str]:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def tests_near(files: Iterable[Path]) -> list[Path]:
    """The changed tests, then those named after a changed file, then the others of its package.

    tests/ mirrors the sources: a file of `ingest/live/` has its tests in `tests/ingest/live/`, or in the folder above.
    """
    nearest, named, others = [], [], []
    for file in files:
        parts = file.relative_to(ROOT).parts
        if parts[0] == "tests":
            if file.name.startswith("test_") and file.suffix == ".py":
                nearest.append(file)
            elif file.name == "conftest.py" and len(parts) > 2:
                others.extend(sorted(file.parent.glob("test_*.py")))
            continue
        folder = _mirror(parts[1:-1] if parts[0] == "templates" else parts[:-1])
        if folder is None:
            continue
        named += [test for test in (folder / f"test_{file.stem}.py",) if test.exists()]
        others += sorted(folder.glob("test_*.py"))
    return list(dict.fromkeys([*nearest, *named, *others]))


def _mirror(parts: Sequence[str]) -> Path | None:
    """The folder of tests/ for a folder of the sources; None for those without tests, such as docs."""
    for length in range(len(parts), 0, -1):
        folder = ROOT.joinpath("tests", *parts[:length])
        if any(folder.glob("test_*.py")):
            return folder
    return None


def run(name: str, command: Sequence[str]) -> Done:
    began = time.monotonic()
    words = [str(BIN / command[0]), *command[1:]]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return Done(name, done.returncode, time.monotonic() - began, done.stdout)


def test(files: Sequence[Path], until: float) -> int:
    """`until`: seconds since the epoch."""
    names = [str(file.relative_to(ROOT)) for file in files]
    marks = " and ".join(f"not {mark}" for mark in LEFT_OUT)
    parallel = ["-n", PARALLEL, "--no-loadscope-reorder"] if len(files) > 1 else []
    options = ["-q", "--tb=short", "--maxfail=5", "-p", "tests.suite.quick", "-m", marks, *parallel]
    environment = {name: value for name, value in os.environ.items() if name not in UNWANTED}
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, *names],
        cwd=ROOT,
        env=environment | {"TESTS_UNTIL": str(until)},
        check=False,
    ).returncode


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Where this module is a plugin, as in `test`: what has not begun in time is skipped, and so counted."""
    if time.time() > float(os.environ["TESTS_UNTIL"]):
        pytest.skip(NO_TIME)


def main(since: str = "") -> int:
    until = time.time() + SECONDS
    tests = tests_near(changed(since))
    failed = False
    with ThreadPoolExecutor(len(CHECKS)) as pool:
        checks = [pool.submit(run, name, command) for name, command in CHECKS.items()]
        if tests:
            failed = test(tests, until) not in (0, NO_TESTS)
        else:
            print("No tests are near what was changed.", flush=True)  # noqa: T201
        for check in checks:
            done = check.result()
            failed |= bool(done.code)
            print(f"{done.name}: {'failed' if done.code else 'ok'} ({done.seconds:.0f} s)", flush=True)  # noqa: T201
            if done.code:
                print(done.output, flush=True)  # noqa: T201
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
