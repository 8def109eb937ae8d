"""Processes that don't reach the stores say so, at their most talkative, without the passwords of those."""

import contextlib
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.background import Background, free_port
from tests.production.parts import MediaNode, Web
from tests.server_process import wait_for

pytestmark = [pytest.mark.serve, pytest.mark.timeout(180)]

PASSWORDS = {
    "DATABASE_URL": ("a-password-of-postgresql", "postgresql://rtmpweb:{}@127.0.0.1:1/none"),
    "REDIS_URL": ("a-password-of-redis", "redis://:{}@127.0.0.1:1/0"),
    "SPARK_REMOTE": ("a-token-of-spark-connect", "sc://127.0.0.1:1/;token={}"),
}

CELERY = [sys.executable, "-m", "celery", "-A", "rtmpweb"]


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[dict[str, Background]]:
    """Each of the production form, by what it says of a store that is away."""
    environment = {name: form.format(password) for name, (password, form) in PASSWORDS.items()}
    environment |= {
        "RTMPWEB_DATA_DIR": str(tmp_path / "data"),
        "RTMPWEB_LOG_LEVEL": "DEBUG",
        "RTMPWEB_MEDIA": f"127.0.0.1:{free_port()}",
    }
    started: dict[str, Background] = {
        r"The database does not answer": Web(tmp_path, environment),
        r"(WARNING|ERROR) ingest\.": MediaNode("node-a", tmp_path, environment),
        r"Cannot connect to redis": Background(
            "worker",
            [*CELERY, "worker", "-Q", "default", "-c", "1"],
            folder=tmp_path,
            ready="",
            environment=environment,
        ),
        r"The database does not answer: ": Background(
            "beat", [*CELERY, "beat", "--pidfile="], folder=tmp_path, ready="", environment=environment
        ),
    }
    for process in started.values():
        process.launch()
    yield started
    for process in started.values():
        process.kill()


@pytest.mark.slow("each kind of process starts")
def test_no_password_of_a_store_is_logged(processes: dict[str, Background]) -> None:
    for said, process in processes.items():
        if isinstance(process, Web):
            process.wait_ready(120)
            with contextlib.suppress(urllib.error.HTTPError):
                urllib.request.urlopen(process.url + "/login/", timeout=20).close()  # noqa: S310 - its own address
        wait_for(lambda: re.search(said, process.log), timeout_s=60, what=f"{process.name} says {said}")  # noqa: B023
    for process in processes.values():
        assert [name for name, (password, _) in PASSWORDS.items() if password in process.log] == [], process.name
