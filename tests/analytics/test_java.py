"""Java is found by JAVA_HOME, then on PATH, and told what to install when it isn't."""

from pathlib import Path

import pytest

from analytics.java import JavaMissing, find_java


def java(home: Path, version: str) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")


def test_java_home_comes_before_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "home", "21.0.2")))
    monkeypatch.setenv("PATH", str(java(tmp_path / "path", "17.0.15") / "bin"))
    assert find_java() == tmp_path / "home"


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.20"])
def test_an_old_java_home_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "home", version)))
    monkeypatch.setenv("PATH", str(java(tmp_path / "path", "25") / "bin"))
    assert find_java() == tmp_path / "path"


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
