"""This project, in the forms that its users run."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.peers.server import ROOT, Server, started

NAME = "rtmpweb"
APP = "bench"
PRODUCTION = ("DATABASE_URL", "REDIS_URL")

FORMS = {
    "node": "runrtmp",
    "embedded": "serve",
    "production": "runrtmp",
}
"""Form -> command. `node`: a media node with SQLite and all in memory; `embedded`: the whole server, with dashboard and
workers; `production`: a media node with the PostgreSQL and Redis of the environment, which are not counted."""

READY = re.compile(r"(?:^Listening on|^Ready: dashboard \S+,) (rtmp://[^\s/]+)", re.MULTILINE)


class Installation:
    """A data folder with the application `bench` for everybody, kept until `close`; each server gets a copy of it."""

    def __init__(self, form: str) -> None:
        self.command = FORMS[form]
        if form == "production":
            lacking = [name for name in PRODUCTION if not os.environ.get(name)]
            if lacking:
                raise SystemExit(f"The production form needs {' and '.join(lacking)} in the environment.")
        self.is_production = form == "production"
        self.folder = Path(tempfile.mkdtemp(prefix="rtmpweb-bench-"))
        self.manage("migrate", "--verbosity", "0")
        self.manage("application", "set", APP, "--publish", "open", "--play", "public")

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def manage(self, *words: str) -> str:
        """A management command's output; raises CalledProcessError."""
        command = [sys.executable, "manage.py", *words]
        return subprocess.run(
            command, cwd=ROOT, env=self.environment(self.folder), check=True, stdout=subprocess.PIPE, text=True
        ).stdout

    def environment(self, data: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        found = {name: value for name, value in os.environ.items() if not name.startswith("RTMPWEB_")}
        if not self.is_production:
            found = {name: value for name, value in found.items() if name not in PRODUCTION}
        return found | {
            "RTMPWEB_DATA_DIR": str(data),
            "RTMPWEB_RTMP": "127.0.0.1:0",
            "RTMPWEB_HTTP": "127.0.0.1:0",
            "RTMPWEB_MEDIA": "127.0.0.1:0",
            "RTMPWEB_NODE": "bench",
            "RTMPWEB_LOG_LEVEL": "WARNING",
            "PYTHONUNBUFFERED": "1",
            **(extra or {}),
        }

    @contextlib.contextmanager
    def running(self, flush_ms: int = 0) -> Iterator[Server]:
        with tempfile.TemporaryDirectory(prefix="rtmpweb-bench-") as name:
            data = Path(name) / "data"
            shutil.copytree(self.folder, data)
            environment = self.environment(data, {"RTMPWEB_FLUSH_MS": str(flush_ms)})
            command = [sys.executable, "manage.py", self.command]
            with started(command, Path(name) / "log", _ready, environment=environment) as (pid, url):
                yield Server(pid, url, APP)


def _ready(text: str) -> str | None:
    found = READY.search(text)
    return found.group(1) if found else None
