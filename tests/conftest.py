"""What the whole suite shares: how it is spread over parallel workers, and the list of what could not be tested."""

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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A file's tests stay on one parallel worker, so that its fixtures are made once; `xdist_group` joins files."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            group = "spark" if item.get_closest_marker("spark") else item.path.stem  # One JVM is enough.
            item.add_marker(pytest.mark.xdist_group(group))
