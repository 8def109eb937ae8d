"""What pages and errors print runs as it stands: in a shell, from another folder, without this environment."""

import html
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ingest import command_line
from tests.server_process import ROOT, Installation


@pytest.fixture
def afresh() -> Any:
    for found in (command_line._program, command_line._prefix):
        found.cache_clear()
    yield
    for found in (command_line._program, command_line._prefix):
        found.cache_clear()


PAGE = """
from django.contrib.auth.models import User
from django.test import Client
from ingest.models import Application, Stream
Stream.objects.create(application=Application.objects.create(name="live"), name="demo")
client = Client(SERVER_NAME="localhost")
client.force_login(User.objects.create_superuser("root"))
print(client.get("/streams/live/demo/").content.decode())
"""


@pytest.mark.matrix
def test_a_command_of_a_page_runs_from_the_home_folder(tmp_path: Path) -> None:
    installation = Installation(tmp_path / "var of this one")
    installation.put_tables()
    page = installation.manage("shell", "--no-imports", "-c", PAGE)
    (printed,) = re.findall(r"<code>([^<]* streamkey create [^<]*)</code>", page)
    home = tmp_path / "home"
    home.mkdir()
    environment = {"PATH": os.environ["PATH"], "HOME": str(home)}
    done = subprocess.run(
        ["bash", "-c", html.unescape(printed)], cwd=home, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "rk_" in done.stdout
    assert installation.rows("SELECT count(*) FROM ingest_streamkey") == [(1,)]


@pytest.mark.usefixtures("afresh")
def test_printed_command_in_a_checkout_uses_its_virtual_environment(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.MANAGE = ""
    monkeypatch.setattr(command_line, "IN_CONTAINERS", ())
    monkeypatch.setattr("sys.prefix", str(ROOT / ".venv"))
    monkeypatch.setenv("RTMPWEB_DATA_DIR", "")
    assert command_line.short("migrate") == ".venv/bin/python manage.py migrate"
    assert command_line.celery("beat") == f"cd {ROOT} && .venv/bin/python -m celery -A rtmpweb beat"
    assert command_line.manage("streamkey rotate", "live/demo") == (
        f"cd {ROOT} && .venv/bin/python manage.py streamkey rotate live/demo"
    )
    monkeypatch.chdir(ROOT)
    assert command_line.here("migrate") == ".venv/bin/python manage.py migrate"
    monkeypatch.chdir("/")
    assert command_line.here("migrate") == f"cd {ROOT} && .venv/bin/python manage.py migrate"


@pytest.mark.usefixtures("afresh")
def test_printed_command_names_a_foreign_python_and_the_data_folder(
    settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings.MANAGE, settings.DATA_DIR = "", tmp_path / "a b"
    monkeypatch.setattr(command_line, "IN_CONTAINERS", ())
    monkeypatch.setattr("sys.prefix", "/usr")
    monkeypatch.setattr("sys.executable", "/usr/bin/python3")
    monkeypatch.setenv("RTMPWEB_DATA_DIR", str(tmp_path / "a b"))
    assert command_line.manage("migrate") == (
        f"cd {ROOT} && RTMPWEB_DATA_DIR='{tmp_path}/a b' /usr/bin/python3 manage.py migrate"
    )


@pytest.mark.usefixtures("afresh")
def test_printed_command_in_a_container_starts_with_docker_exec(
    settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings.MANAGE = ""
    monkeypatch.setattr("sys.prefix", "/usr")
    monkeypatch.setattr(command_line, "IN_CONTAINERS", (tmp_path,))
    monkeypatch.setattr("socket.gethostname", lambda: "3f2a91c0d4e5")
    assert command_line.manage("migrate") == "docker exec 3f2a91c0d4e5 python manage.py migrate"


@pytest.mark.usefixtures("afresh")
def test_printed_command_uses_the_configured_manage_prefix(settings: Any) -> None:
    settings.MANAGE = "docker compose exec web python manage.py"
    for how in (command_line.manage, command_line.short, command_line.here):
        assert how("ban lift", "192.0.2.9") == "docker compose exec web python manage.py ban lift 192.0.2.9"
    assert command_line.celery_short("beat") == "docker compose exec web python -m celery -A rtmpweb beat"
    compose = (ROOT / "docker-compose.yml").read_text()
    assert "RTMPWEB_MANAGE: ${RTMPWEB_MANAGE:-docker compose exec web python manage.py}" in compose


def test_no_page_prints_a_command_of_its_own() -> None:
    pages = (ROOT / "templates").rglob("*.html")
    assert [path.name for path in pages if re.search("manage.py|celery -A", path.read_text())] == []
