"""The processes of the production form, each as docker-compose.yml runs it, and the stores that they share."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.background import Background, accepts, free_port
from tests.rtmpweb.processes import MANAGE, PROGRAMS
from tests.tools import require_tool

CELERY: Sequence[str | Path] = (PROGRAMS / "celery", "-A", "rtmpweb")

SPARK = {
    "SPARK_LOCAL_IP": "127.0.0.1",
    "PYSPARK_PYTHON": MANAGE[0],  # Spark's scripts use it to find the wheel.
}


class Service(Background):
    """A part that listens at the same port after each start. `setting` has its address."""

    scheme = "http"
    subcommand = setting = said = ""

    def __init__(self, folder: Path, environment: Mapping[str, str], name: str = "", *options: str) -> None:
        self.port = free_port()
        command = [*MANAGE, self.subcommand, *options]
        where = {**environment, self.setting: f"127.0.0.1:{self.port}"}
        super().__init__(name or self.subcommand, command, folder=folder, environment=where, ready=self.said)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"


class Web(Service):
    subcommand, setting = "runweb", "RTMPWEB_HTTP"
    said = "Ready: dashboard"  # It accepts connections earlier than signals.


class Daphne(Web):
    """The same pages without our limits."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        super().__init__(folder, environment)
        where = ("-b", "127.0.0.1", "-p", str(self.port))
        self.command = [str(PROGRAMS / "daphne"), *where, "rtmpweb.asgi:application"]
        self.ready = lambda: accepts(self.port)


class MediaNode(Service):
    scheme, subcommand, setting, said = "rtmp", "runrtmp", "RTMPWEB_RTMP", "Listening on rtmp://"
    nice = -6  # About the 4096 shares that docker-compose.yml gives it, where the others have 1024.
    stop_timeout_s = 60.0

    def __init__(self, name: str, folder: Path, environment: Mapping[str, str], *, workers: int = 1) -> None:
        super().__init__(folder, {**environment, "RTMPWEB_NODE": name}, name, "--workers", str(workers))
        if workers > 1:
            self.ready = "Running: "


class Packager(Service):
    """The packager whose node is NAME-hls."""

    subcommand, setting, said = "runhls", "RTMPWEB_HLS", "Listening on http://"

    def __init__(self, folder: Path, environment: Mapping[str, str], name: str = "pack") -> None:
        super().__init__(folder, {"RTMPWEB_NODE": name, **environment}, f"{name}-hls")

    def playlist(self, name: str) -> str:
        """The URL of the multivariant playlist of `live/NAME`."""
        return f"{self.url}/hls/live/{name}/index.m3u8"


class Worker(Background):
    """A Celery worker of one queue, named after the queue, with one process for tasks."""

    stop_timeout_s = 120.0  # It ends what it is at, and a busy machine may take a minute to start Spark.

    def __init__(self, queue: str, folder: Path, environment: Mapping[str, str]) -> None:
        command = [*CELERY, "worker", "-Q", queue, "-n", f"{queue}@%h", "-c", "1", "--loglevel", "INFO"]
        super().__init__(f"worker-{queue}", command, folder=folder, environment=environment, ready=" ready.")
        if queue == "analytics":
            self.nice = 6  # About the 256 shares that docker-compose.yml gives it.


class Beat(Background):
    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        command = [*CELERY, "beat", "--pidfile=", "--loglevel", "INFO"]
        super().__init__("beat", command, folder=folder, environment=environment, ready="beat: Starting...")


class RedisServer(Background):
    def __init__(self, folder: Path, *, keeps: bool = False) -> None:
        """Skip the test if Redis is not installed. `keeps`: its data outlives it, as in production."""
        self.port = free_port()
        where = ("--port", str(self.port), "--bind", "127.0.0.1", "--dir", folder)
        command = [require_tool("redis-server"), *where, "--save", "", "--appendonly", "yes" if keeps else "no"]
        super().__init__("redis", command, folder=folder, ready="eady to accept connections")

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"


class PostgresServer(Background):
    stop_signal = signal.SIGINT
    """PostgreSQL's fast shutdown, which ends its clients' connections."""

    def __init__(self, folder: Path) -> None:
        """Make an empty cluster. Skip the test if PostgreSQL is not installed. `folder` is for the log."""
        program = Path(require_tool("postgres"))
        user = "postgres" if os.geteuid() == 0 else None  # PostgreSQL refuses to run as root.
        self._data = Path(tempfile.mkdtemp(prefix="rtmpweb-pg-"))  # Where another user may enter.
        if user is not None:
            shutil.chown(self._data, user)
        data = ("-D", str(self._data / "data"))
        make = [str(program.with_name("initdb")), *data, "-U", "tester", "-A", "trust", "-N", "-E", "UTF8"]
        subprocess.run(make, user=user, cwd="/", check=True, capture_output=True)
        self.port = free_port()
        command = [str(program), *data, "-p", str(self.port), "-h", "127.0.0.1", "-k", str(self._data), "-F"]
        ready = "ready to accept "  # A standby: read-only connections.
        super().__init__("postgres", command, folder=folder, ready=ready, user=user, cwd=Path("/"))

    @property
    def url(self) -> str:
        return f"postgresql://tester@127.0.0.1:{self.port}/postgres"

    def restart(self, *, standby: bool) -> None:
        """Restart it as it was, or as the standby of a primary that is not there: it takes no writes."""
        self.stop()
        mark = self._data / "data" / "standby.signal"
        if standby:
            mark.touch()
        else:
            mark.unlink(missing_ok=True)
        self.start()

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """End it and delete its data."""
        self.kill()
        shutil.rmtree(self._data, ignore_errors=True)
