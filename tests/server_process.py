"""A running installation as a script outside the project uses it, and the embedded server as a real process."""

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import re
import secrets
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, TypeVar

import httpx

from tests import commands
from tests.rtmpweb import processes

ROOT = Path(__file__).resolve().parent.parent
READY = re.compile(r"Ready: dashboard (http://\S+?)/?, (rtmp://[^\s/]+)")

CREATE_KEYS = """
from django.core.management import call_command
for path in {paths!r}:
    call_command("streamkey", "create", path, "--json")
"""

UNSCHEDULED = """
    UPDATE django_celery_beat_periodictask SET enabled = false WHERE queue = 'analytics'
    RETURNING name
"""
"""Nothing of the analytics is done by the clock: a run has its effect on pages, and any work on which workers run,
whatever the time is then."""

T = TypeVar("T")


def wait_for(check: Callable[[], T | None], *, timeout_s: float, what: str) -> T:
    """The first value of `check()` that is true, asked ten times a second; fails after `timeout_s`, naming `what`."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = check()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s} s: {what}")
        time.sleep(0.1)


class Installation:
    """Commands and API calls. `http` and `rtmp` are its addresses, such as http://127.0.0.1:8000, once it runs."""

    def __init__(self, folder: Path, **environment: str) -> None:
        """`folder`: its data folder, which commands and servers share."""
        self.folder = folder
        self.environment = {
            **os.environ,
            "RTMPWEB_DATA_DIR": str(folder),
            "RTMPWEB_HTTP": "127.0.0.1:0",
            "RTMPWEB_RTMP": "127.0.0.1:0",
            "RTMPWEB_MEDIA": "127.0.0.1:0",
            "RTMPWEB_HLS": "off",  # It is a process more.
            "PYTHONUNBUFFERED": "1",
            **environment,
        }
        for name in ("DATABASE_URL", "REDIS_URL"):
            if name not in environment:
                self.environment.pop(name, None)
        self.database = folder / "rtmpweb.sqlite3"
        self.token = ""
        # By a name of its own: another installation may have had this folder before.
        self._token_command = ("apitoken", "create", f"tests-{secrets.token_hex(4)}", "--role", "admin", "--json")
        self._making_token = threading.Lock()
        self.http = ""
        self.rtmp = ""

    @property
    def rtmp_port(self) -> int:
        return int(self.rtmp.rpartition(":")[2])

    def manage(
        self, *arguments: str, environment: Mapping[str, str] = MappingProxyType({}), timeout_s: float = 180
    ) -> str:
        """A management command in another process, as an operator's shell would run it."""
        done = commands.run(arguments, {**self.environment, **environment}, timeout_s)
        assert done.returncode == 0, f"manage.py {arguments[0]} failed:\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def put_tables(self) -> None:
        """As `migrate` makes them in SQLite, unless they are there; and there are no runs but those asked for."""
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
        """`streamkey create`, its URLs pointing at this installation."""
        return self.manage_json("streamkey", "create", path, *options)

    def create_keys(self, paths: Iterable[str], then: str = "") -> dict[str, dict[str, Any]]:
        """{path: what `streamkey create PATH` says}, by one process for all, as its start is what takes time.

        It makes the token for the API too, and runs `then`, code that prints nothing.
        """
        wanted = list(paths)
        with self._making_token:
            code = CREATE_KEYS.format(paths=wanted)
            if not self.token:
                code += f"call_command(*{self._token_command})\n"
            code += then
            output = self.manage("shell", "--no-imports", "-c", code)
            made = []
            decoder, rest = json.JSONDecoder(), output.strip()
            while rest:
                key, end = decoder.raw_decode(rest)
                made.append(key)
                rest = rest[end:].lstrip()
            if not self.token:
                self.token = made.pop()["token"]
        return dict(zip(wanted, made, strict=True))

    def request(self, path: str, *, method: str = "GET", token: str | None = None) -> tuple[int, Any]:
        """An API call: the status and the decoded body."""
        if token is None:
            token = self._own_token()
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        answer = self._client.request(method, self.http + path, headers=headers)
        try:
            return answer.status_code, answer.json()
        except ValueError:
            return answer.status_code, answer.text

    @functools.cached_property
    def _client(self) -> httpx.Client:
        return httpx.Client(timeout=20, limits=httpx.Limits(max_keepalive_connections=0))

    def _own_token(self) -> str:
        """An administrator's token, made when it is first needed, by whichever thread is first."""
        with self._making_token:
            if not self.token:
                self.token = json.loads(self.manage(*self._token_command))["token"]
        return self.token

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
        """Of a stream, the latest first."""
        app, _, name = path.partition("/")
        return self.items(f"/api/v1/sessions?app={app}&name={name}&kind={kind}")

    def count_attempts(self, reason: str) -> int:
        """How often anybody was refused for it."""
        return sum(attempt["count"] for attempt in self.items(f"/api/v1/attempts?reason={reason}"))

    def wait_for_end(self, path: str, session_id: str = "", timeout_s: float = 20) -> dict[str, Any]:
        """The session, once it has ended: the latest of a stream's publishers, or any by its id.

        Its end is written in a batch behind others' rows, which takes seconds where others keep the machine busy; how
        soon it was is told by its `ended_at`.
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


SERVE = (*processes.MANAGE, "serve")
READY_S = 120.0
"""A first start makes the database, which takes a minute where others keep the machine busy."""


class ServerProcess(Installation):
    """`manage.py serve` in its own data folder on free loopback ports."""

    def __init__(self, folder: Path, **environment: str) -> None:
        super().__init__(folder, **environment)
        self.lines: list[str] = []

    def start(self, timeout_s: float = READY_S) -> None:
        self.process = subprocess.Popen(
            SERVE, cwd=ROOT, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            found = wait_for(self._ready, timeout_s=timeout_s, what="the server's ready line")
        except AssertionError:
            self.stop()  # Else it would go on for as long as the tests do.
            raise
        self.http, self.rtmp = found.group(1), found.group(2)

    def run_to_its_end(self) -> "subprocess.CompletedProcess[str]":
        """A start that is expected to fail."""
        return processes.run(*SERVE, only=self.environment)

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as output:
            for line in output:
                self.lines.append(line.rstrip("\n"))

    def _ready(self) -> re.Match[str] | None:
        if self.process.poll() is not None:
            self._reader.join(5)
            raise AssertionError("the server ended before it was ready:\n" + self.log)
        return next((found for line in list(self.lines) if (found := READY.search(line))), None)

    @property
    def log(self) -> str:
        return "\n".join(self.lines)

    @property
    def first_start(self) -> str:
        """What the first start had to show: its output is no terminal, so it is in a file."""
        return (self.folder / "first-start.txt").read_text()

    def stop(self, timeout_s: float = 30) -> int:
        """SIGTERM, and wait for the orderly end."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError("the server did not stop in order:\n" + self.log) from None
        self._reader.join(5)
        return code


@functools.cache
def migrated_database() -> Path:
    """An SQLite file with this version's tables and nothing of an installation's own.

    To make it takes several seconds of a processor, so it is made once for all processes and runs of the tests.
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
    """A new SQLite file as `migrate` has it now: beat does not make up for the times that passed since it was made."""
    shutil.copyfile(migrated_database(), database)
    with contextlib.closing(sqlite3.connect(database)) as connection, connection:
        now = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"
        connection.execute("UPDATE django_celery_beat_periodictask SET date_changed = ?", [now])


@contextlib.contextmanager
def running(folder: Path, **environment: str) -> Iterator[ServerProcess]:
    """Its first start, but that the tables are there before; what else a first start makes, it makes."""
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
    """A client program in the background, ended (by its pid) when the block is left.

    `output`: where its standard output goes; else it is kept, with its errors. `user`: whom it runs as, if not as this.
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
        if started.poll() is None:
            started.terminate()
            try:
                started.wait(5)
            except subprocess.TimeoutExpired:
                started.kill()
        started.communicate()
