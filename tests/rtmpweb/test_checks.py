"""Each system check of the installation: by its id, on settings that are wrong, and silent on those that are right."""

import re
from collections.abc import Callable
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import run_checks
from django.utils import timezone
from pytest_django import Settings

from ingest.models import Node
from tests.certificates import make_pair
from tests.tools import hide_java

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
def test_what_is_wrong_is_named(
    wanted: str, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RTMPWEB_SECRET_KEY", "RTMPWEB_KEY_PEPPER"):
        monkeypatch.delenv(name, raising=False)
    settings.SPARK_REMOTE = settings.SPARK_REMOTE or ""
    assert wanted not in found()
    CASES[wanted](settings, tmp_path)
    assert wanted in found()


def test_a_production_form_in_order(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_machine_without_java(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    hide_java(monkeypatch)
    assert "Java 17" in found()["rtmpweb.W007"]
    settings.SPARK_REMOTE = "sc://b:15002"
    assert "rtmpweb.W007" not in found()


def test_several_nodes_need_names(settings: Settings, db: None) -> None:
    Node.objects.create(name="a")
    Node.objects.create(name="old", stopped_at=timezone.now())
    assert "rtmpweb.W008" not in found(databases=["default"])
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
