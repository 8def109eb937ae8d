"""Settings: from the environment, with one clear sentence for what can't be used; and each system check of them."""

import math
import os
import re
import stat
from collections.abc import Callable
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone
from pytest_django import Settings

from ingest.models import Node
from ingest.services import nodes
from rtmpweb import env
from tests.certificates import make_pair
from tests.ingest.faults import at_once
from tests.tools import hide_java

NAME = "RTMPWEB_TEST_VARIABLE"


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless a test sets it."""
    monkeypatch.delenv(NAME, raising=False)


@pytest.mark.parametrize(
    ("read", "found", "expected"),
    [
        (lambda: env.text(NAME, "kept"), None, "kept"),
        (lambda: env.text(NAME, "kept"), "", "kept"),
        (lambda: env.text(NAME, "kept"), "  given ", "given"),
        (lambda: env.flag(NAME), None, False),
        (lambda: env.flag(NAME), "Yes", True),
        (lambda: env.flag(NAME), "off", False),
        (lambda: env.integer(NAME, 7, 0, 10), None, 7),
        (lambda: env.integer(NAME, 7, 0, 10), "10", 10),
        (lambda: env.number(NAME, 4.0, 0, 7), None, 4.0),
        (lambda: env.number(NAME, 4.0, 0, 7), "0.5", 0.5),
        (lambda: env.number(NAME, 15, 0, 60, or_never=True), None, 15),
        (lambda: env.number(NAME, 15, 0, 60, or_never=True), "0", 0),
        (lambda: env.number(NAME, 15, 0, 60, or_never=True), "Never", math.inf),
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
def test_setting_is_parsed_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[], Any], found: str | None, expected: Any
) -> None:
    if found is not None:
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
        (lambda: env.number(NAME, 15, 0, 60, or_never=True), "61"),
        (lambda: env.number(NAME, 15, 0, 60, or_never=True), "inf"),
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
def test_invalid_setting_error_names_setting_value_and_expectation(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[], Any], found: str
) -> None:
    monkeypatch.setenv(NAME, found)
    with pytest.raises(ImproperlyConfigured) as raised:
        read()
    assert NAME in str(raised.value)
    assert found in str(raised.value)
    assert "expected" in str(raised.value)


@pytest.mark.parametrize("url", ["spark://b:7077", "sc://", "b:15002/;token=hidden", "sc://a b"])
def test_invalid_spark_url_error_does_not_quote_the_value(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv(NAME, url)
    with pytest.raises(ImproperlyConfigured, match=f"^{NAME} can't be used: expected sc://host:15002[.]$"):
        env.spark(NAME, *env.REMOTE)


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


def test_secret_from_the_environment_is_not_written_to_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(NAME, "given")
    assert env.kept_secret(NAME, tmp_path / "data") == "given"
    assert not (tmp_path / "data").exists()


def test_a_made_secret_is_kept_for_its_owner_only(tmp_path: Path) -> None:
    made = env.kept_secret(NAME, tmp_path / "data")
    assert len(made) >= 48
    assert env.secret_file(NAME, tmp_path / "data") in env.MADE
    env.MADE.clear()
    assert env.kept_secret(NAME, tmp_path / "data") == made
    assert not env.MADE
    (file,) = (tmp_path / "data").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_secret_that_cant_be_kept_is_named_with_its_file(tmp_path: Path) -> None:
    file = tmp_path / NAME.lower()
    file.mkdir()
    with pytest.raises(
        ImproperlyConfigured, match=f"^{NAME} is not set, and can't be kept in {file}: Is a directory[.] "
    ):
        env.kept_secret(NAME, tmp_path)


def test_a_secret_that_was_brought_back_is_closed_to_others(tmp_path: Path) -> None:
    file = tmp_path / NAME.lower()
    file.write_text("of a backup\n")
    file.chmod(0o644)
    assert env.kept_secret(NAME, tmp_path) == "of a backup"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_an_empty_file_is_no_secret(tmp_path: Path) -> None:
    """Such as a full disk leaves of a backup that is brought back: under it all keys would be void."""
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
    pids = iter(range(1000, 1008))
    monkeypatch.setattr(os, "getpid", lambda: next(pids))
    found: list[str] = []
    at_once(*[lambda: found.append(env.kept_secret(NAME, tmp_path))] * 8)
    assert (len(found), len(set(found)), len(list(tmp_path.iterdir()))) == (8, 1, 1)


Change = Callable[[Settings, Path], None]


def found(**kwargs: Any) -> dict[str, str]:
    """{id: hint} of what `check --deploy` tells of ours."""
    messages = run_checks(include_deployment_checks=True, **kwargs)
    ours = [message for message in messages if str(message.id).startswith(("rtmpweb.", "ingest."))]
    assert all(message.hint for message in ours), "each says what to do"
    return {str(message.id): str(message.hint) for message in ours}


def wrong(**values: Any) -> Change:
    def change(settings: Settings, folder: Path) -> None:
        for name, value in values.items():
            setattr(settings, name, value)

    return change


def tls(days: float = 365, **lacking: None) -> Change:
    def change(settings: Settings, folder: Path) -> None:
        pair = make_pair(folder, days=days)
        settings.RTMPS_ADDRESS = ("0.0.0.0", 1936)
        settings.TLS_CERT, settings.TLS_KEY = pair.chain, pair.key
        wrong(**lacking)(settings, folder)

    return change


def foreign_key(settings: Settings, folder: Path) -> None:
    tls()(settings, folder)
    other = folder / "other"
    other.mkdir()
    settings.TLS_KEY = make_pair(other).key


def lake_behind_a_file(settings: Settings, folder: Path) -> None:
    (folder / "file").write_text("")
    settings.LAKE_DIR = folder / "file" / "lake"


def folder_of_many(settings: Settings, folder: Path) -> None:
    settings.DATA_DIR = folder / "shared"
    settings.DATA_DIR.mkdir()
    settings.DATA_DIR.chmod(0o1777)


CASES: dict[str, Change] = {
    "rtmpweb.W001": wrong(SPARK_MASTER="spark://a:7077", SPARK_REMOTE="sc://b:15002"),
    "rtmpweb.W002": wrong(REDIS_URL="redis://r"),
    "rtmpweb.W003": wrong(DATABASE_URL="postgres://d"),
    "rtmpweb.W004": wrong(DATABASE_URL="postgres://d", REDIS_URL="redis://r"),
    "rtmpweb.W005": wrong(ALLOWED_HOSTS=["*"]),
    "rtmpweb.W006": wrong(HTTP_ADDRESS=("0.0.0.0", 8000)),
    "rtmpweb.W009": wrong(BEHIND_TLS=True),
    "rtmpweb.W010": wrong(AUTH_URL="https://auth.example.org"),
    "rtmpweb.W011": folder_of_many,
    "rtmpweb.E001": lake_behind_a_file,
    "rtmpweb.E002": wrong(DATABASE_URL="postgres://d", REDIS_URL="redis://r"),
    "ingest.E003": tls(TLS_KEY=None),
    "ingest.E004": foreign_key,
    "ingest.E005": tls(days=-1),
    "ingest.W003": tls(RTMPS_ADDRESS=None),
    "ingest.W004": tls(days=13),
    "ingest.W006": wrong(MEDIA_ADDRESS=("0.0.0.0", 8001)),
    "ingest.W005": wrong(MAX_CONNECTIONS=2**62),
}


@pytest.mark.parametrize("wanted", CASES)
def test_each_system_check_reports_its_fault(
    wanted: str, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RTMPWEB_SECRET_KEY", "RTMPWEB_KEY_PEPPER"):
        monkeypatch.delenv(name, raising=False)
    settings.SPARK_REMOTE = settings.SPARK_REMOTE or ""
    assert wanted not in found()
    CASES[wanted](settings, tmp_path)
    assert wanted in found()


def test_system_checks_find_nothing_in_a_valid_production_setup(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RTMPWEB_SECRET_KEY", "RTMPWEB_KEY_PEPPER"):
        monkeypatch.setenv(name, "a long random text of a test, which is no secret at all")
    settings.DATABASE_URL, settings.REDIS_URL = "postgres://d", "redis://r"
    settings.LAKE_DIR = tmp_path / "lake"
    settings.HTTP_ADDRESS = ("0.0.0.0", 8000)
    settings.BEHIND_TLS = True
    settings.TRUSTED_PROXIES = (ip_network("172.18.0.1"),)
    settings.RTMP_HOST = "live.example.org"
    settings.MEDIA_URL_BASE = "https://media.example.org"
    settings.SPARK_REMOTE = "sc://b:15002"
    tls(days=15)(settings, tmp_path)
    assert found() == {}


def test_missing_java_is_reported_unless_spark_is_remote(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    hide_java(monkeypatch)
    assert "Java 17" in found()["rtmpweb.W007"]
    settings.SPARK_REMOTE = "sc://b:15002"
    assert "rtmpweb.W007" not in found()


def test_several_nodes_need_names(settings: Settings, db: None) -> None:
    Node.objects.create(name="a")
    Node.objects.create(name="old", stopped_at=timezone.now())
    assert "rtmpweb.W008" not in found(databases=["default"])
    for number in (1, 2):
        Node.objects.create(name=f"{nodes.own_name()}-{number}", stopped_at=timezone.now())
    Node.objects.filter(name="a").update(stopped_at=timezone.now())
    Node.objects.exclude(name__in=("a", "old")).update(stopped_at=None)
    assert "rtmpweb.W008" not in found(databases=["default"]), "workers of this host"
    Node.objects.create(name="b")
    assert "rtmpweb.W008" in found(databases=["default"])
    settings.NODE_NAME = "a"
    assert "rtmpweb.W008" not in found(databases=["default"])


def test_every_check_has_an_id_of_its_own_and_a_test() -> None:
    root = Path(__file__).resolve().parents[2]
    ids = [
        each
        for file in ("rtmpweb/checks.py", "ingest/checks.py")
        for each in re.findall(r'id="([\w.]+)"', (root / file).read_text())
    ]
    assert len(ids) == len(set(ids))
    tests = Path(__file__).read_text() + (root / "tests/ingest/test_commands.py").read_text()
    assert [each for each in ids if each not in tests] == []


def test_the_data_folder_is_this_runs_own() -> None:
    for folder in (settings.DATA_DIR, settings.LAKE_DIR, settings.BROKER_DIR, settings.STATIC_ROOT):
        assert "rtmpweb-tests-" in str(folder)
        assert not Path(folder).is_relative_to(settings.BASE_DIR)


def test_a_developers_services_are_not_used() -> None:
    assert not settings.DATABASE_URL
    assert not settings.REDIS_URL
    assert not settings.SPARK_MASTER
