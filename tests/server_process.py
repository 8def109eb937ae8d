"""An installation as a script outside the project uses it, and the embedded server as a real process."""

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import re
import secrets
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

import httpx

from tests import commands
from tests.background import ROOT as ROOT
from tests.background import Background
from tests.background import wait_for as wait_for
from tests.rtmpweb import processes

READY = re.compile(r"Ready: dashboard (http://\S+?)/?, (rtmp://[^\s/]+)")

UNSCHEDULED = """
    UPDATE django_celery_beat_periodictask SET enabled = false WHERE queue = 'analytics'
    RETURNING name
"""
"""Stop all scheduled analytics. A run changes pages and uses workers, whatever the time is when tests run."""


class Installation:
    """Commands and API calls. `http` and `rtmp` are its addresses, such as http://127.0.0.1:8000, once it runs."""

    http = ""
    rtmp = ""

    def __init__(self, folder: Path, **environment: str) -> None:
        """`folder` is the data folder, which commands and servers share."""
        self.folder = folder
        self.environment = {
            **{name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "REDIS_URL")},
            "RTMPWEB_DATA_DIR": str(folder),
            "RTMPWEB_HTTP": "127.0.0.1:0",
            "RTMPWEB_RTMP": "127.0.0.1:0",
            "RTMPWEB_MEDIA": "127.0.0.1:0",
            "RTMPWEB_HLS": "off",  # Saves a process.
            "PYTHONUNBUFFERED": "1",
            **environment,
        }
        self.database = folder / "rtmpweb.sqlite3"

    @functools.cached_property
    def _client(self) -> httpx.Client:
        return httpx.Client(timeout=20, limits=httpx.Limits(max_keepalive_connections=0))

    @property
    def rtmp_port(self) -> int:
        return int(self.rtmp.rpartition(":")[2])

    def manage(
        self, *arguments: str, environment: Mapping[str, str] = MappingProxyType({}), timeout_s: float = 180
    ) -> str:
        """Run a management command in another process, as an operator's shell would, and return its output."""
        done = commands.run(arguments, {**self.environment, **environment}, timeout_s)
        assert done.returncode == 0, f"manage.py {arguments[0]} failed:\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def put_tables(self) -> None:
        """Make SQLite's tables, if there are none, without scheduled analytics."""
        if not self.database.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            copy_tables(self.database)
            assert self.rows(UNSCHEDULED)

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with contextlib.closing(sqlite3.connect(self.database, timeout=10)) as connection, connection:
            return connection.execute(query, values).fetchall()

    def manage_json(self, *arguments: str) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.manage(*arguments, "--json"))
        return answer

    def create_key(self, path: str, *options: str) -> dict[str, Any]:
        """Return the output of `streamkey create`, whose URLs point at this installation."""
        return self.manage_json("streamkey", "create", path, *options)

    def create_keys(self, paths: Iterable[str], then: str = "") -> dict[str, dict[str, Any]]:
        """Return {path: output of `streamkey create PATH`}. Run the code `then`, and make the token for the API."""
        made = {path: self.create_key(path) for path in paths}
        if then:
            self.manage("shell", "--no-imports", "-c", then)
        assert self.token
        return made

    @functools.cached_property
    def token(self) -> str:
        """An administrator's token. Its name is new, as another installation may have had this folder before."""
        name = f"tests-{secrets.token_hex(4)}"
        return str(self.manage_json("apitoken", "create", name, "--role", "admin")["token"])

    def request(self, path: str, *, method: str = "GET", token: str | None = None) -> tuple[int, Any]:
        """Call the API, by default as an administrator; return the status and the decoded body."""
        token = self.token if token is None else token
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        answer = self._client.request(method, self.http + path, headers=headers)
        try:
            return answer.status_code, answer.json()
        except ValueError:
            return answer.status_code, answer.text

    def get(self, path: str) -> dict[str, Any]:
        status, answer = self.request(path)
        assert status == 200, (status, answer)
        found: dict[str, Any] = answer
        return found

    def items(self, path: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get(path)["items"]
        return found

    def stream(self, path: str) -> dict[str, Any]:
        return self.get(f"/api/v1/streams/{path}")

    def session(self, session_id: str) -> dict[str, Any]:
        return self.get(f"/api/v1/sessions/{session_id}")

    def sessions(self, path: str, kind: str = "publish") -> list[dict[str, Any]]:
        """Return a stream's sessions, the latest first."""
        app, _, name = path.partition("/")
        return self.items(f"/api/v1/sessions?app={app}&name={name}&kind={kind}")

    def count_attempts(self, reason: str) -> int:
        """Return how often any client was refused for this reason."""
        return sum(attempt["count"] for attempt in self.items(f"/api/v1/attempts?reason={reason}"))

    def wait_for_end(self, path: str, session_id: str = "", timeout_s: float = 20) -> dict[str, Any]:
        """Return the session after its end: the latest of a stream's publishers, or any session by its id.

        The server writes the end in a batch behind other rows, which takes seconds on a busy machine. `ended_at` has
        the exact time.
        """

        def check() -> dict[str, Any] | None:
            found = [self.session(session_id)] if session_id else self.sessions(path)
            return found[0] if found and found[0]["ended_at"] else None

        return wait_for(check, timeout_s=timeout_s, what=f"the session of {path} has ended")

    def wait_for_state(self, path: str, state: str, timeout_s: float = 10) -> dict[str, Any]:
        def check() -> dict[str, Any] | None:
            found = self.stream(path)
            return found if found["state"] == state else None

        return wait_for(check, timeout_s=timeout_s, what=f"{path} is {state}")


class ServerProcess(Installation, Background):
    """`manage.py serve` in its own data folder on free loopback ports. Its log is next to that folder."""

    start_timeout_s = 120.0  # A first start makes the database, which takes a minute on a busy machine.
    stop_timeout_s = 30.0

    def __init__(self, folder: Path, **environment: str) -> None:
        Installation.__init__(self, folder, **environment)
        name, command = f"{folder.name}-serve", (*processes.MANAGE, "serve")
        Background.__init__(self, name, command, folder=folder.parent, ready=self._read_addresses)
        self.variables = self.environment

    def _read_addresses(self) -> bool:
        if found := READY.search(self.log):
            self.http, self.rtmp = found.groups()
        return bool(found)

    @property
    def lines(self) -> list[str]:
        return self.log.splitlines()

    @property
    def first_start(self) -> str:
        """The passwords and keys that the first start shows: in a file, as its output is no terminal."""
        return (self.folder / "first-start.txt").read_text()


@functools.cache
def migrated_database() -> Path:
    """Return an SQLite file with this version's tables, without any data of an installation.

    Making it takes seconds, so all processes and runs of the tests share it.
    """
    made_by = hashlib.sha256()
    for file in (*sorted(ROOT.glob("*/migrations/*.py")), ROOT / "requirements" / "base.lock"):
        made_by.update(file.read_bytes())
    kept = ROOT / "var" / "tests" / f"migrated-{made_by.hexdigest()[:16]}"
    kept.mkdir(parents=True, exist_ok=True)
    whole = kept / "whole.sqlite3"
    with (kept / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not whole.exists():
            with tempfile.TemporaryDirectory(dir=kept) as folder:
                installation = Installation(Path(folder))
                installation.manage("migrate", "--no-input", "--verbosity", "0")
                installation.database.rename(whole)
    return whole


def copy_tables(database: Path) -> None:
    """Make an SQLite file as `migrate` makes it now: beat must not make up for the time since the tables were made."""
    shutil.copyfile(migrated_database(), database)
    with contextlib.closing(sqlite3.connect(database)) as connection, connection:
        now = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"
        connection.execute("UPDATE django_celery_beat_periodictask SET date_changed = ?", [now])


@contextlib.contextmanager
def running(folder: Path, **environment: str) -> Iterator[ServerProcess]:
    """Start a server for the first time, but with its tables made before."""
    server = ServerProcess(folder, **environment)
    if "DATABASE_URL" not in environment:
        server.put_tables()
    server.start()
    try:
        yield server
    finally:
        server.stop()


@contextlib.contextmanager
def program(
    *arguments: str, output: IO[bytes] | None = None, user: str | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Run a client program in the background until the block is left.

    Args:
        output: The file for its standard output. None keeps the output in a pipe, together with its errors.
        user: The user that it runs as, if not the tests' own.
    """
    started = subprocess.Popen(
        list(arguments),
        stdout=output or subprocess.PIPE,
        stderr=subprocess.DEVNULL if output else subprocess.STDOUT,
        text=True,
        user=user,
        extra_groups=None if user is None else [],
    )
    try:
        yield started
    finally:
        started.terminate()
        try:
            started.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            started.kill()
            started.communicate()
