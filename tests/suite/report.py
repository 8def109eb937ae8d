"""A pytest plugin: the last closing line counts the tests of all stages, what the stages cost is told, and a test that
takes long without a reason fails.

Reports of the runs before are added to this one's, so that pytest's `--durations` tells of them all in the last stage.
Stages that could not run are listed as skipped. The last stage waits for those that run beside it, and prints the cost
of each stage, and which tests may be slow, and why.
"""

import json
import math
import os
import time
from dataclasses import asdict, dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from tests.suite.stages import Told, alone, told

LONGEST_S = {"setup": 45.0, "call": float(os.environ.get("TESTS_LONGEST_S") or 10)}
"""Of a test without `@pytest.mark.slow`, on a machine that has nothing else to do. What is set up serves others too."""

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
SET_UP = ""
"""pytest's category of what was set up or torn down."""
PASSED_ON = ("failed", "error", "passed", "skipped", "xfailed", "xpassed", SET_UP)
PASSED_ON_S = 1.0
"""Of what was set up or torn down only what took so long is passed on."""
REASON = "slow"


LOAD_STEP_S, LOAD_MINUTE_S = 5, 60
"""How often Linux adds to the load average, and over how long it forgets."""


def patience(before: float, lasted_s: float) -> float:
    """By how much everything takes longer than alone: as many as would run share the processors.

    The load average of a minute lags, so that of the `lasted_s` alone is told from it and from what it was `before`.
    """
    now = os.getloadavg()[0]
    kept = math.exp(-(lasted_s // LOAD_STEP_S) * LOAD_STEP_S / LOAD_MINUTE_S)
    meanwhile = (now - before * kept) / (1 - kept) if kept < 1 else now
    return max(1.0, now / CORES, meanwhile / CORES)


# --- In the process that runs a test ---

BEFORE = pytest.StashKey[float]()
"""The load average at the begin of what is reported next."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[BEFORE] = os.getloadavg()[0]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    item.stash[BEFORE] = os.getloadavg()[0]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    report: pytest.TestReport = yield
    mark = item.get_closest_marker("slow")
    if mark is not None:
        report.user_properties.append((REASON, mark.args[0]))
    longest_s = LONGEST_S.get(report.when, float("inf"))
    times = patience(item.stash[BEFORE], report.duration)
    if mark is None and report.passed and report.duration > longest_s * times:
        report.outcome = "failed"
        report.longrepr = (
            f"The {report.when} took {report.duration:.1f} s; {longest_s:.0f} s at most on an idle machine "
            f"(this one: {times:.1f} times as long). Make it faster, move its long form to tests/soak, or say why "
            f'it has to be so: @pytest.mark.slow("reason").'
        )
    return report


# --- In the process that hears of all ---


@dataclass
class StageCost:
    name: str
    tests: int
    began: float
    """In seconds since the epoch."""
    wall_s: float
    cpu_s: float


@pytest.hookimpl(tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):  # A parallel worker: its reports are its parent's as well.
        return
    suite = told()
    for output in suite.beside if suite.is_last else ():
        while not output.exists():
            time.sleep(0.1)
        terminalreporter.write(f"\n\n{output.read_text()}\n")
    with alone(suite):
        stages = _stages(suite, terminalreporter)
        _add(terminalreporter, config, suite.folder / "tally.json")
    for name, reason in suite.left_out.items():
        terminalreporter.stats.setdefault("skipped", []).append(
            pytest.TestReport(
                nodeid=f"the whole stage: {name}",
                location=("tests/suite/stages.py", None, name),
                keywords={},
                outcome="skipped",
                longrepr=("tests/suite/stages.py", 0, f"Skipped: {reason}"),
                when="setup",
            )
        )
    if suite.is_last:
        _show(terminalreporter, stages)


def _stages(suite: Told, reporter: pytest.TerminalReporter) -> list[StageCost]:
    """This one, and those that have ended before it."""
    used = os.times()
    cpu_s = used.user + used.system + used.children_user + used.children_system
    tests = {report.nodeid for category in PASSED_ON for report in reporter.stats.get(category, [])}
    stage = StageCost(suite.stage, len(tests), suite.began, time.time() - suite.began, cpu_s)
    file = suite.folder / "stages.json"
    kept = [*(json.loads(file.read_text()) if file.exists() else []), asdict(stage)]
    file.write_text(json.dumps(kept))
    return [StageCost(**values) for values in kept]


def _add(reporter: pytest.TerminalReporter, config: pytest.Config, file: Path) -> None:
    """The file's reports to this run's, and all of them to the file."""
    for category, kept in (json.loads(file.read_text()) if file.exists() else {}).items():
        reports = [config.hook.pytest_report_from_serializable(config=config, data=report) for report in kept]
        reporter.stats[category] = reports + reporter.stats.get(category, [])
    known = {
        category: [
            config.hook.pytest_report_to_serializable(config=config, report=report)
            for report in reporter.stats.get(category, [])
            if category != SET_UP or report.duration > PASSED_ON_S
        ]
        for category in PASSED_ON
    }
    file.write_text(json.dumps({category: reports for category, reports in known.items() if reports}, default=str))


def _show(reporter: pytest.TerminalReporter, stages: list[StageCost]) -> None:
    reporter.section("what the tests cost")
    for stage in stages:
        used = stage.cpu_s / (stage.wall_s * CORES)
        time_of = f"{stage.wall_s:5.0f} s, {stage.cpu_s:5.0f} s of processor time ({used:.0%} of {CORES} cores)"
        reporter.line(f"{time_of}, {stage.tests:5} tests: {stage.name}")
    in_all_s = max(stage.began + stage.wall_s for stage in stages) - min(stage.began for stage in stages)
    reporter.line(f"{in_all_s:5.0f} s in all")
    reporter.section("may be slow")
    reports = [report for category in PASSED_ON for report in reporter.stats.get(category, [])]
    marked = {(why, report.nodeid) for report in reports for name, why in report.user_properties if name == REASON}
    for reason, tests in groupby(sorted(marked), key=itemgetter(0)):
        reporter.line(f"{reason}:")
        for _, test in tests:
            reporter.line(f"  {test}")
