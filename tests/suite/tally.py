"""A pytest plugin: adds the reports of the runs before to this one's, so that the last closing line counts all tests.

Stages that could not run are counted and listed as skipped. The last one waits for those that run beside it.
"""

import json
import time
from pathlib import Path

import pytest

from tests.suite.told import alone, told

PASSED_ON = ("failed", "error", "passed", "skipped", "xfailed", "xpassed")


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


def _add(reporter: pytest.TerminalReporter, config: pytest.Config, file: Path) -> None:
    """The file's reports to this run's, and all of them to the file."""
    for category, kept in (json.loads(file.read_text()) if file.exists() else {}).items():
        reports = [config.hook.pytest_report_from_serializable(config=config, data=report) for report in kept]
        reporter.stats[category] = reports + reporter.stats.get(category, [])
    known = {
        category: [
            config.hook.pytest_report_to_serializable(config=config, report=report)
            for report in reporter.stats.get(category, [])
        ]
        for category in PASSED_ON
    }
    file.write_text(json.dumps({category: reports for category, reports in known.items() if reports}, default=str))
