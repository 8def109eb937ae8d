"""What the whole suite shares: how it is spread over parallel workers, and the list of what could not be tested."""

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import redis
from _pytest.config import apply_warning_filters
from django.conf import settings
from django.db import connection
from xdist.scheduler import LoadScopeScheduling

from tests.cleaning import Migrated, empties_database, settle
from tests.server_process import copy_tables
from tests.suite.quick import NO_TIME

GROUPS = {
    "tests/e2e/pages/": "pages",
    "tests/e2e/": "e2e",
    "tests/e2e/test_hls": "hls",
    "tests/rtmpweb/test_serve": "serve",
    # From here on Java starts: by now there is an archive of its classes (tests/analytics/classes.py).
    "tests/production/outages/test_jobs": "production",
    "tests/production/test_form.py": "production",
    "tests/production/test_spark.py": "production",
    "tests/analytics/test_pipeline": "spark",
    "tests/analytics/test_command": "spark",
    "tests/analytics/test_oracle": "jobs on spark",
    "tests/analytics/test_jobs": "jobs on spark",
    "tests/analytics/test_runner": "jobs on spark",
    "tests/e2e/test_reports_page": "made reports",
    "tests/analytics/test_chaos": "chaos",
    "tests/production/outages/": "outages",
    "tests/e2e/test_two_am": "night",
    "tests/production/test_reconnecting": "reconnections",
    "tests/analytics/reports/": "reports",
    "tests/analytics/test_worker": "worker",
}
"""{how a path begins: the group of tests that share what takes long to start}; of several the longest counts.

In this order the workers end together: what takes long begins first, and what has a long test at its end is not among
the last, as its worker is given the next group when two tests are left. Files that are in no group follow.
"""

ORDER = tuple(dict.fromkeys(GROUPS.values()))

BUSY = 1 / 2
"""Of the parallel workers, those that take the groups: they keep the processors busy. The others begin with the files,
many of which mostly wait. Who has no more of the one goes on with the other, and in the end with `LAST`.
"""

LAST = ("tests/ingest/flv/", "tests/ingest/live/", "tests/ingest/rtmp/")
"""Short files of short tests that wait for nothing: they fill what time the parallel workers have left in the end."""


# Before any test module is imported: `@given` takes what holds when it stands there. A busy machine is no failure.
hypothesis.settings.register_profile(
    "unhurried", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("unhurried")

MIGRATED = Migrated()


def pytest_configure(config: pytest.Config) -> None:
    if settings.REDIS_URL:  # Clients of Redis stay open until their test's event loop is gone, and go with it.
        filters = ["ignore::ResourceWarning", "ignore:.*StreamWriter.__del__:pytest.PytestUnraisableExceptionWarning"]
        for line in filters:
            config.addinivalue_line("filterwarnings", line)
        # For the garbage that is collected after the last test, too: pytest's filters of that time are set by now.
        apply_warning_filters(filters, [])


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
    """PostgreSQL goes with the run: no need to drop a database to which the consumers' threads are still connected.
    SQLite's file has its tables from `copy_tables`, and goes with the run's folder.
    """
    return True


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings: None) -> None:
    """After each parallel worker has got a name of its own: the tables, which take long to make."""
    if connection.vendor == "sqlite":
        copy_tables(Path(connection.settings_dict["TEST"]["NAME"]))


@pytest.fixture(autouse=True)
def empty_redis(own_redis: "redis.Redis | None") -> None:
    """Of the tests before this one nothing is left, as in the database."""
    if own_redis is not None:
        own_redis.flushdb()


@pytest.fixture(autouse=True)
def nothing_goes_on(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a test and its fixtures have begun is over before their tables are emptied."""
    empties = empties_database(request.node)
    if empties:
        request.getfixturevalue("transactional_db")
    yield
    if empties:
        settle()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    MIGRATED.prepare(item)


def pytest_collection_finish() -> None:
    """The collector of garbage need not go through what is there for as long as the tests are: modules, tests."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Names every test that was skipped, and why: a green run must not hide them."""
    skipped: dict[str, list[str]] = {}
    for report in terminalreporter.getreports("skipped"):
        reason = report.longrepr[2].removeprefix("Skipped: ") if isinstance(report.longrepr, tuple) else ""
        if reason != NO_TIME:
            skipped.setdefault(reason, []).append(report.nodeid)
    if not skipped:
        return
    terminalreporter.section("not tested")
    for reason, tests in sorted(skipped.items()):
        terminalreporter.line(reason)
        for test in sorted(tests):
            terminalreporter.line(f"  {test}")


def group_of(nodeid: str) -> str:
    """What stays on one parallel worker: one of `GROUPS`, or else a file."""
    begin = max(filter(nodeid.startswith, GROUPS), key=len, default="")
    return GROUPS.get(begin, nodeid.partition("::")[0])


class ByGroup(LoadScopeScheduling):  # type: ignore[misc]
    """Gives each worker a group at a time. The marks of pytest-xdist's own (3.8) come to nothing with pytest 9.2."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

    def _assign_work_unit(self, node: Any) -> None:
        is_busy = int(node.gateway.id.removeprefix("gw")) < round(BUSY * self.numnodes)

        def place(scope: str) -> int:
            return 2 if scope.startswith(LAST) else int((scope in ORDER) is not is_busy)

        self.workqueue.move_to_end(min(self.workqueue, key=place), last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByGroup:
    return ByGroup(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begins with what takes longest: last of all plugins, as pytest-django has an order of its own, which stays within
    each group.
    """
    order = {name: place for place, name in enumerate(ORDER)}
    items.sort(key=lambda item: order.get(group_of(item.nodeid), len(order) + item.nodeid.startswith(LAST)))
