"""A warm Spark session for the tests marked `spark`, which all run in one process: one JVM is enough."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pytest_django.fixtures import Settings

from analytics import runner
from tests.receivers import MailReceiver, mail_receiver, use_mail_server
from tests.tools import require_tool


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("spark") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(600))  # The first one starts a JVM, perhaps on a busy machine.
    items.sort(key=lambda item: "ends_java" in getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def jvm() -> Iterator[None]:
    """Ends the JVM with the tests; it starts when first needed."""
    require_tool("java")
    yield
    runner.stop()


@pytest.fixture
def ends_java(jvm: None) -> None:
    """Marks tests that end Java: they come last, as the others share one that stays warm."""


@pytest.fixture
def spark(jvm: None) -> Iterator[SparkSession]:
    with runner.spark() as session:
        yield session


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def own_lake(lake: Path, settings: Settings) -> Path:
    """The lake of the installation."""
    settings.LAKE_DIR = lake
    return lake


@pytest.fixture
def inbox(settings: Settings) -> Iterator[MailReceiver]:
    with mail_receiver() as receiver:
        use_mail_server(settings, receiver.port)
        yield receiver
