"""The archive of Spark's classes: made by the first Java, used by the next, and not when it is damaged."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from analytics import class_archive, runner

pytestmark = [
    pytest.mark.spark,
    pytest.mark.usefixtures("ends_java"),
    pytest.mark.slow("two Javas, the first without an archive of classes, which it makes"),
]


@pytest.fixture(autouse=True)
def apart(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends_java: None) -> Iterator[None]:
    """A machine's first Java, as an installation starts it: without the archive that the tests share."""
    given = os.environ["JDK_JAVA_OPTIONS"].split()
    monkeypatch.setenv("JDK_JAVA_OPTIONS", " ".join(each for each in given if "SharedArchiveFile" not in each))
    settings.SPARK_MASTER = "local[1]"
    settings.DATA_DIR = tmp_path
    runner.stop()
    yield
    runner.stop()


def archives(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "spark" / "classes").glob("*"))


def used() -> list[str]:
    """The archives that the Java which is there, or is started, has."""
    with runner.spark() as session:
        given = session._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()  # type: ignore[union-attr]
        return [str(each).partition("=")[2] for each in given if str(each).startswith("-XX:SharedArchiveFile=")]


def test_the_first_java_makes_one_which_the_next_uses_unless_it_is_damaged(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert used() == []
    runner.keep_classes()
    told = capfd.readouterr()
    assert told.out == ""  # Where commands answer, in JSON too.
    assert "dump" not in told.err
    (made,) = archives(tmp_path)
    runner.keep_classes()
    assert archives(tmp_path) == [made]  # Not another one each time.
    runner.stop()
    assert used() == [str(made)]
    runner.stop()
    made.chmod(0o600)
    os.truncate(made, made.stat().st_size // 2)
    assert class_archive.options() == class_archive.RECORDING
    assert archives(tmp_path) == []
