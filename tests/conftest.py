"""The base of all tiers: the profile of hypothesis, a repair of asyncio, the groups of tests, and slow tests.

Nothing here needs Django: the pure tier runs without it. `tests/database.py` has what the other tiers add.
"""

from asyncio.selector_events import BaseSelectorEventLoop
from socket import socket
from typing import Any

import hypothesis
import pytest

SHARED = ("tests/production/", "tests/e2e/pages/", "tests/e2e/")
"""Folders that share what takes long to start: each stays on one worker. So does Spark's Java; else each file does."""

MATRIX = ("tests/production/", "tests/e2e/")
"""Folders whose tests are of the matrix, except the journeys."""

# We load the profile before any test module is imported, because `@given` reads it then. A busy machine is no failure.
# `make test` uses the same examples in each run, so that a change can't fail on an unrelated example.
hypothesis.settings.register_profile("random", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.register_profile("fixed", hypothesis.settings.get_profile("random"), derandomize=True)
hypothesis.settings.load_profile("fixed")

accept: Any = BaseSelectorEventLoop._accept_connection2  # type: ignore[attr-defined]


async def accept_or_close(loop: Any, factory: Any, found: socket, info: Any, tls: Any, server: Any, *rest: Any) -> None:
    """Close a connection whose server was closed since. asyncio loses it, a later test fails (CPython's gh-109564)."""
    if server is None or server._sockets is not None:
        await accept(loop, factory, found, info, tls, server, *rest)
    else:
        found.close()


BaseSelectorEventLoop._accept_connection2 = accept_or_close  # type: ignore[attr-defined]


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
