"""Settings from the environment: values, defaults, and one clear sentence for what can't be used."""

import math
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from rtmpweb import env

NAME = "RTMPWEB_TEST_VARIABLE"


@pytest.mark.parametrize(
    ("read", "found", "expected"),
    [
        (lambda: env.text(NAME, "kept"), None, "kept"),
        (lambda: env.text(NAME, "kept"), "", "kept"),
        (lambda: env.text(NAME, "kept"), "  given ", "given"),
        (lambda: env.flag(NAME), None, False),
        (lambda: env.flag(NAME, True), None, True),
        (lambda: env.flag(NAME), "Yes", True),
        (lambda: env.flag(NAME, True), "off", False),
        (lambda: env.integer(NAME, 7, 0, 10), None, 7),
        (lambda: env.integer(NAME, 7, 0, 10), "10", 10),
        (lambda: env.number(NAME, 4.0, 0, 7), None, 4.0),
        (lambda: env.number(NAME, 4.0, 0, 7), "0.5", 0.5),
        (lambda: env.patience(NAME, 15, 60), None, 15),
        (lambda: env.patience(NAME, 15, 60), "0", 0),
        (lambda: env.patience(NAME, 15, 60), "Never", math.inf),
        (lambda: env.memory(NAME, "1g", 512), None, "1g"),
        (lambda: env.memory(NAME, "1g", 512), "1536M", "1536m"),
        (lambda: env.spark(NAME, *env.MASTER), None, ""),
        (lambda: env.spark(NAME, *env.MASTER), "local[*]", "local[*]"),
        (lambda: env.spark(NAME, *env.MASTER), "spark://a:7077,b:7077", "spark://a:7077,b:7077"),
        (lambda: env.spark(NAME, *env.REMOTE), "sc://[::1]:15002/;token=x", "sc://[::1]:15002/;token=x"),
        (lambda: env.some(NAME, ("app", "key")), None, ["app", "key"]),
        (lambda: env.some(NAME, ("app", "key")), "KEY", ["key"]),
        (lambda: env.some(NAME, ("app", "key")), "key, app", ["app", "key"]),
        (lambda: env.words(NAME), None, []),
        (lambda: env.words(NAME), "a, b,c  d", ["a", "b", "c", "d"]),
        (lambda: env.address(NAME, "127.0.0.1:8000"), None, ("127.0.0.1", 8000)),
        (lambda: env.address(NAME, "127.0.0.1:8000"), "OFF", None),
        (lambda: env.address(NAME, ""), None, None),
        (lambda: env.address(NAME, ""), "[::1]:1935", ("::1", 1935)),
        (lambda: env.address(NAME, ""), "0.0.0.0:0", ("0.0.0.0", 0)),
        (lambda: env.file(NAME), None, None),
        (lambda: env.file(NAME), "/etc/tls/../chain.pem", Path("/etc/tls/../chain.pem")),
        (lambda: env.rtmp_base(NAME), None, ""),
        (lambda: env.rtmp_base(NAME), "rtmps://two.example.net:1936/", "rtmps://two.example.net:1936"),
    ],
)
def test_values(monkeypatch: pytest.MonkeyPatch, read: Callable[[], Any], found: str | None, expected: Any) -> None:
    if found is None:
        monkeypatch.delenv(NAME, raising=False)
    else:
        monkeypatch.setenv(NAME, found)
    assert read() == expected


@pytest.mark.parametrize(
    ("read", "found"),
    [
        (lambda: env.flag(NAME), "perhaps"),
        (lambda: env.integer(NAME, 7, 0, 10), "eleven"),
        (lambda: env.integer(NAME, 7, 0, 10), "11"),
        (lambda: env.integer(NAME, 7, 0, 10), "-1"),
        (lambda: env.number(NAME, 4.0, 0, 7), "7.1"),
        (lambda: env.number(NAME, 4.0, 0, 7), "nan"),
        (lambda: env.number(NAME, 4.0, 0, 7), "soon"),
        (lambda: env.patience(NAME, 15, 60), "61"),
        (lambda: env.patience(NAME, 15, 60), "inf"),
        (lambda: env.some(NAME, ("app", "key")), "keys"),
        (lambda: env.memory(NAME, "1g", 512), "511m"),
        (lambda: env.memory(NAME, "1g", 512), "2"),
        (lambda: env.memory(NAME, "1g", 512), "1.5g"),
        (lambda: env.address(NAME, ""), "8000"),
        (lambda: env.address(NAME, ""), "host:port"),
        (lambda: env.address(NAME, ""), "host:70000"),
        (lambda: env.networks(NAME), "10.0.0.1/8"),
        (lambda: env.networks(NAME), "proxy.example.net"),
        (lambda: env.rtmp_base(NAME), "two.example.net:1935"),
        (lambda: env.rtmp_base(NAME), "rtmp://two.example.net/live"),
    ],
)
def test_what_can_not_be_used_is_named(monkeypatch: pytest.MonkeyPatch, read: Callable[[], Any], found: str) -> None:
    monkeypatch.setenv(NAME, found)
    with pytest.raises(ImproperlyConfigured) as raised:
        read()
    assert NAME in str(raised.value)
    assert found in str(raised.value)
    assert "expected" in str(raised.value)


@pytest.mark.parametrize("url", ["spark://b:7077", "sc://", "b:15002/;token=hidden", "sc://a b"])
def test_where_spark_is_is_named_and_not_quoted(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv(NAME, url)
    with pytest.raises(ImproperlyConfigured) as raised:
        env.spark(NAME, *env.REMOTE)
    assert str(raised.value) == f"{NAME} can't be used: expected sc://host:15002."


@pytest.mark.parametrize("url", ["postgres://rtmpweb:hid/den+#x@postgres:5432/rtmpweb", "hidden://h/n", "hidden"])
def test_a_database_url_that_cant_be_read_is_named_and_not_quoted(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv(NAME, url)
    with pytest.raises(ImproperlyConfigured) as raised:
        env.database_url(NAME)
    assert NAME in str(raised.value)
    assert "openssl rand -hex 32" in str(raised.value)
    assert "hid" not in str(raised.value)


def test_a_database_url_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, " postgres://u:p%2Fw@h:5432/n ")
    assert env.database_url(NAME) == "postgres://u:p%2Fw@h:5432/n"
    monkeypatch.setenv(NAME, "")
    assert env.database_url(NAME) == ""


def test_a_path_is_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(NAME, "relative/folder")
    assert env.path(NAME, Path("/unused")) == tmp_path / "relative" / "folder"


def test_a_given_secret_is_not_written_down(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(NAME, "given")
    assert env.kept_secret(NAME, tmp_path / "data") == "given"
    assert not (tmp_path / "data").exists()


def test_a_made_secret_is_kept_for_its_owner_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(NAME, raising=False)
    made = env.kept_secret(NAME, tmp_path / "data")
    assert len(made) >= 48
    assert env.secret_file(NAME, tmp_path / "data") in env.MADE
    env.MADE.clear()
    assert env.kept_secret(NAME, tmp_path / "data") == made
    assert not env.MADE
    (file,) = (tmp_path / "data").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_secret_that_cant_be_kept_is_named_with_its_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(NAME, raising=False)
    file = tmp_path / NAME.lower()
    file.mkdir()
    with pytest.raises(ImproperlyConfigured) as raised:
        env.kept_secret(NAME, tmp_path)
    assert f"{NAME} is not set, and can't be kept in {file}: Is a directory. " in str(raised.value)


def test_a_secret_that_was_brought_back_is_closed_to_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(NAME, raising=False)
    file = tmp_path / NAME.lower()
    file.write_text("of a backup\n")
    file.chmod(0o644)
    assert env.kept_secret(NAME, tmp_path) == "of a backup"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_an_empty_file_is_no_secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Such as a full disk leaves of a backup that is brought back: under it all keys would be void."""
    monkeypatch.delenv(NAME, raising=False)
    file = tmp_path / NAME.lower()
    file.touch()
    with pytest.raises(ImproperlyConfigured, match=f"{file}, which kept it, is empty"):
        env.kept_secret(NAME, tmp_path)
    assert file.exists()


def test_a_folder_that_cant_be_made_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder, said in ((tmp_path / "file" / "var", "Not a directory"), (tmp_path / "file", "File exists")):
        monkeypatch.setenv(NAME, str(folder))
        with pytest.raises(ImproperlyConfigured) as raised:
            env.folder(NAME, Path("/unused"))
        assert str(raised.value).startswith(f"{NAME}: the folder {folder} can't be made: {said}. ")


def test_processes_that_start_at_once_agree_on_a_secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(NAME, raising=False)
    pids = iter(range(1000, 1008))
    monkeypatch.setattr(os, "getpid", lambda: next(pids))
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(env.kept_secret(NAME, tmp_path))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert len(list(tmp_path.iterdir())) == 1
