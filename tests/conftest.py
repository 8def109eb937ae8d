"""What the whole suite shares: how it is spread over parallel workers, and the list of what could not be tested."""

from collections.abc import Iterator

import pytest
import redis
from django.conf import settings

from tests.tools import MISSING

ONE_FORM = {"one_form", "spark", "browser", "serve", "production", "soak"}
"""Marks of tests that are not run again on PostgreSQL and Redis: most start processes that have a form of their own."""


def pytest_configure(config: pytest.Config) -> None:
    if settings.REDIS_URL:  # Clients of Redis stay open until their test's event loop is gone, and go with it.
        for warning in (
            "ignore::ResourceWarning",
            "ignore:.*StreamWriter.__del__:pytest.PytestUnraisableExceptionWarning",
        ):
            config.addinivalue_line("filterwarnings", warning)


@pytest.fixture(scope="session")
def own_redis() -> Iterator["redis.Redis | None"]:
    """This process's database of the suite's Redis; None in the embedded form."""
    if not settings.REDIS_URL:
        yield None
        return
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        yield client


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """PostgreSQL goes with the run: no need to drop a database to which the consumers' threads are still connected."""
    return bool(settings.DATABASE_URL)


@pytest.fixture(autouse=True)
def empty_redis(own_redis: "redis.Redis | None") -> None:
    """Of the tests before this one nothing is left, as in the database."""
    if own_redis is not None:
        own_redis.flushdb()


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
    """Marks what runs in both forms. Keeps a file's tests on one parallel worker, so that its fixtures are made once;
    `xdist_group` joins files.
    """
    for item in items:
        fixtures = {"db", "transactional_db"} & set(getattr(item, "fixturenames", ()))
        asks_database = fixtures or item.get_closest_marker("django_db")
        if asks_database and not ONE_FORM & {mark.name for mark in item.iter_markers()}:
            item.add_marker(pytest.mark.both_forms)
        if item.get_closest_marker("xdist_group") is None:
            group = "spark" if item.get_closest_marker("spark") else item.path.stem  # One JVM is enough.
            item.add_marker(pytest.mark.xdist_group(group))
