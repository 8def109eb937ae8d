"""A pytest plugin: adds the reports of the runs before to this one's, so that the last closing line counts all tests.

`-p tests.tally`, and TESTS_TALLY in the environment names the file that passes them on (see tests.suite);
TESTS_LEFT_OUT names the stages that could not run, as {name: reason}: they are counted and listed as skipped.
"""

import json
import os
from pathlib import Path

import pytest

PASSED_ON = ("failed", "error", "passed", "skipped", "xfailed", "xpassed")


@pytest.hookimpl(tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):  # A parallel worker: its reports are its parent's as well.
        return
    file = Path(os.environ["TESTS_TALLY"])
    for category, kept in (json.loads(file.read_text()) if file.exists() else {}).items():
        reports = [config.hook.pytest_report_from_serializable(config=config, data=report) for report in kept]
        terminalreporter.stats[category] = reports + terminalreporter.stats.get(category, [])
    known = {
        category: [
            config.hook.pytest_report_to_serializable(config=config, report=report)
            for report in terminalreporter.stats.get(category, [])
        ]
        for category in PASSED_ON
    }
    file.write_text(json.dumps({category: reports for category, reports in known.items() if reports}, default=str))
    for name, reason in json.loads(os.environ.get("TESTS_LEFT_OUT", "{}")).items():
        terminalreporter.stats.setdefault("skipped", []).append(
            pytest.TestReport(
                nodeid=f"the whole stage: {name}",
                location=("tests/suite.py", None, name),
                keywords={},
                outcome="skipped",
                longrepr=("tests/suite.py", 0, f"Skipped: {reason}"),
                when="setup",
            )
        )
