"""A warm Spark session for the tests marked `spark`, which all run in one process: one JVM is enough.

In a run with many of them, another process makes an archive of Spark's classes while the tests begin: each further Java
then starts in a third of the CPU time. Until the archive exists, everything works without it.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pytest_django.fixtures import Settings

from analytics import runner
from tests.background import Background
from tests.receivers import MailReceiver, mail_receiver, use_mail_server
from tests.tools import find_tool, require_tool

ARCHIVE_MIN_TESTS = 20
"""Making the archive takes as long as half a dozen cold starts of Java."""

MAKE_ARCHIVE = """
from django.conf import settings
from analytics import runner, spark
spark.warm_up_spark()
runner.stop()
for archive in settings.DATA_DIR.glob("spark/classes/*.jsa"):
    archive.rename({target!r})
"""

MAKER = pytest.StashKey[Background]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("spark") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(600))  # The first one starts a JVM, perhaps on a busy machine.
    items.sort(key=lambda item: "ends_java" in getattr(item, "fixturenames", ()))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Start making the archive, in the first of the parallel workers."""
    from tests.settings import JAVA_CLASSES  # Not at the top: the module's import prepares the environment of a run.

    tests = sum(item.get_closest_marker("spark") is not None for item in session.items)
    is_first = os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0" and not session.config.option.collectonly
    if not is_first or tests < ARCHIVE_MIN_TESTS or JAVA_CLASSES.exists() or find_tool("java") is None:
        return
    java = [each for each in os.environ["JDK_JAVA_OPTIONS"].split() if "SharedArchiveFile" not in each]
    maker = session.config.stash[MAKER] = Background(
        "java-classes",
        [sys.executable, "manage.py", "shell", "--no-imports", "-c", MAKE_ARCHIVE.format(target=str(JAVA_CLASSES))],
        folder=JAVA_CLASSES.parent,
        environment={
            "RTMPWEB_DATA_DIR": str(JAVA_CLASSES.parent / "java-classes"),
            "SPARK_MASTER": "local[1]",
            "JDK_JAVA_OPTIONS": " ".join(java),
        },
        ready=JAVA_CLASSES.exists,
    )
    maker.launch()


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
