"""What the whole suite shares: the list, at the end of a run, of what this machine could not test."""

import pytest

from tests.tools import MISSING


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Names every test that was skipped for want of a program: a green run must not hide them."""
    skipped: dict[str, list[str]] = {}
    for report in terminalreporter.getreports("skipped"):
        reason = report.longrepr[2].removeprefix("Skipped: ") if isinstance(report.longrepr, tuple) else ""
        if reason.startswith(MISSING):
            skipped.setdefault(reason, []).append(report.nodeid)
    if not skipped:
        return
    terminalreporter.section("not tested on this machine")
    for reason, tests in sorted(skipped.items()):
        terminalreporter.line(reason)
        for test in sorted(tests):
            terminalreporter.line(f"  {test}")
