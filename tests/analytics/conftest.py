"""A warm Spark session for the tests marked `spark`, which all run in one process: one JVM is enough."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pytest_django.fixtures import Settings

from analytics import runner
from tests.analytics import classes
from tests.background import Background
from tests.tools import require_tool

MAKER = pytest.StashKey[Background | None]()

FIRST_WORKER = "gw0"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("spark") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(600))  # The first one starts a JVM, perhaps on a busy machine.
    items.sort(key=lambda item: "ends_java" in getattr(item, "fixturenames", ()))


def pytest_collection_finish(session: pytest.Session) -> None:
    """The first of the parallel workers has what speeds all their Javas up made, while the tests begin."""
    if os.environ.get("PYTEST_XDIST_WORKER", FIRST_WORKER) == FIRST_WORKER and not session.config.option.collectonly:
        tests = sum(item.get_closest_marker("spark") is not None for item in session.items)
        session.config.stash[MAKER] = classes.begin(tests)


def pytest_unconfigure(config: pytest.Config) -> None:
    if maker := config.stash.get(MAKER, None):
        maker.kill()


@pytest.fixture(scope="session")
def jvm() -> Iterator[None]:
    """Ends the JVM with the tests; it starts when first needed."""
    require_tool("java")
    yield
    runner.stop()


@pytest.fixture
def ends_java(jvm: None) -> None:
    """Asked for by tests in which Java ends: they come last, as the others share one that stays warm."""


@pytest.fixture
def spark(jvm: None) -> Iterator[SparkSession]:
    with runner.spark() as session:
        yield session


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def own_lake(lake: Path, settings: Settings) -> Path:
    """It is the installation's."""
    settings.LAKE_DIR = lake
    return lake
