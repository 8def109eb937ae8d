"""What all tiers share: hypothesis's profile, which tests stay on one parallel worker, and the reasons of slow tests.

Nothing here needs Django: the pure tier runs without it. `tests/database.py` has what the other tiers add.
"""

import gc

import hypothesis
import pytest

SHARED = ("tests/production/", "tests/e2e/pages/", "tests/e2e/")
"""Folders whose tests share what takes long to start: each stays on one worker. Elsewhere those marked `spark` do, as
they share a Java, and each file does."""

MATRIX = ("tests/production/", "tests/e2e/")
"""Folders whose tests are of the matrix, except the journeys."""


# Before any test module is imported, as `@given` reads the profile then. A busy machine is no failure.
hypothesis.settings.register_profile(
    "unhurried", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("unhurried")


def pytest_configure(config: pytest.Config) -> None:
    if config.pluginmanager.has_plugin("django"):
        config.pluginmanager.import_plugin("tests.database")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Before pytest-xdist reads the groups."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            file = item.nodeid.partition("::")[0]
            own = "spark" if item.get_closest_marker("spark") else file
            item.add_marker(pytest.mark.xdist_group(next(filter(file.startswith, SHARED), own)))
        if item.nodeid.startswith(MATRIX) and item.get_closest_marker("journey") is None:
            item.add_marker(pytest.mark.matrix)
        if mark := item.get_closest_marker("slow"):
            item.user_properties.append(("slow", mark.args[0]))


def pytest_collection_finish() -> None:
    """Keep modules and tests, which stay until the end, out of the garbage collector's rounds."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # Otherwise extension modules such as DuckDB's report at the exit that they leak.
