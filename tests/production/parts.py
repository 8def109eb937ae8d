"""The processes of the production form, each as docker-compose.yml runs it."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.background import Background, accepts, free_port
from tests.tools import require_tool

PROGRAMS = Path(sys.executable).parent
CELERY: Sequence[str | Path] = (PROGRAMS / "celery", "-A", "rtmpweb")


class Web(Background):
    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.port = free_port()
        where = {**environment, "RTMPWEB_HTTP": f"127.0.0.1:{self.port}"}
        super().__init__("web", self.program(), folder=folder, environment=where, ready=self.is_ready)

    def program(self) -> list[str | Path]:
        return [sys.executable, "manage.py", "runweb"]

    def is_ready(self) -> bool:
        """It takes connections earlier than signals."""
        return "Ready: dashboard" in self.log

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class Daphne(Web):
    """The same without bounds of ours."""

    def program(self) -> list[str | Path]:
        return [PROGRAMS / "daphne", "-b", "127.0.0.1", "-p", str(self.port), "rtmpweb.asgi:application"]

    def is_ready(self) -> bool:
        return accepts(self.port)


class MediaNode(Background):
    """`manage.py runrtmp`, at the same port after each start."""

    nice = -6  # About the 4096 shares that docker-compose.yml gives it, where the others have 1024.
    stop_timeout_s = 60.0

    def __init__(self, name: str, folder: Path, environment: Mapping[str, str], *, workers: int = 1) -> None:
        self.port = free_port()
        command = [sys.executable, "manage.py", "runrtmp", "--workers", str(workers)]
        where = {**environment, "RTMPWEB_NODE": name, "RTMPWEB_RTMP": f"127.0.0.1:{self.port}"}
        ready = "Running: " if workers > 1 else "Listening on rtmp://"
        super().__init__(name, command, folder=folder, environment=where, ready=ready)

    @property
    def url(self) -> str:
        return f"rtmp://127.0.0.1:{self.port}"


class Packager(Background):
    """`manage.py runhls`, likewise."""

    def __init__(self, folder: Path, environment: Mapping[str, str], name: str = "pack") -> None:
        """`name`: its node is NAME-hls."""
        self.port = free_port()
        where = {"RTMPWEB_NODE": name, **environment, "RTMPWEB_HLS": f"127.0.0.1:{self.port}"}
        command = [sys.executable, "manage.py", "runhls"]
        super().__init__(f"{name}-hls", command, folder=folder, environment=where, ready="Listening on http://")

    def playlist(self, name: str, token: str = "") -> str:
        """The URL of the multivariant one, of a stream of `live`."""
        return f"{self.url}/hls/{f'{token}/' if token else ''}live/{name}/index.m3u8"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class Worker(Background):
    """A Celery worker of one queue, named after it, with one process for tasks."""

    stop_timeout_s = 60.0

    def __init__(self, queue: str, folder: Path, environment: Mapping[str, str]) -> None:
        command = [*CELERY, "worker", "-Q", queue, "-n", f"{queue}@%h", "-c", "1", "--loglevel", "INFO"]
        super().__init__(f"worker-{queue}", command, folder=folder, environment=environment, ready=" ready.")
        if queue == "analytics":
            self.nice = 6  # About the 256 shares that docker-compose.yml gives it.


class Beat(Background):
    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        command = [*CELERY, "beat", "--pidfile=", "--loglevel", "INFO"]
        super().__init__("beat", command, folder=folder, environment=environment, ready="beat: Starting...")


SPARK = {
    "SPARK_LOCAL_IP": "127.0.0.1",
    "PYSPARK_PYTHON": sys.executable,  # By it the scripts find the wheel.
}


class Spark(Background):
    """A program of the PySpark wheel's, which listens on loopback."""

    def __init__(self, name: str, command: Sequence[str | Path], folder: Path, ready: str) -> None:
        require_tool("java")
        program, *words = command
        super().__init__(name, [PROGRAMS / program, *words], folder=folder, environment=SPARK, ready=ready)


class SparkMaster(Spark):
    def __init__(self, folder: Path) -> None:
        port = free_port()
        self.url = f"spark://127.0.0.1:{port}"
        where = ("--host", "127.0.0.1", "--port", str(port), "--webui-port", str(free_port()))
        command = ("spark-class", "org.apache.spark.deploy.master.Master", *where)
        super().__init__("spark-master", command, folder, "New state: ALIVE")


class SparkWorker(Spark):
    """One core and 1 GB, as in docker-compose.yml."""

    def __init__(self, number: int, master: str, folder: Path) -> None:
        where = ("--host", "127.0.0.1", "--webui-port", str(free_port()))
        size = ("--work-dir", folder / f"spark-work-{number}", "--cores", "1", "--memory", "1g")
        command = ("spark-class", "org.apache.spark.deploy.worker.Worker", master, *where, *size)
        super().__init__(f"spark-worker-{number}", command, folder, "Successfully registered with master")


class SparkConnect(Spark):
    """Spark Connect's server, which is the driver: it has this machine's cores."""

    def __init__(self, folder: Path) -> None:
        port = free_port()
        self.url = f"sc://127.0.0.1:{port}"
        settings = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(port),
            "spark.ui.enabled": "false",
            "spark.sql.warehouse.dir": str(folder / "connect-warehouse"),
        }
        given = (word for name, value in settings.items() for word in ("--conf", f"{name}={value}"))
        server = ("--master", "local[2]", "--class", "org.apache.spark.sql.connect.service.SparkConnectServer")
        command = ("spark-submit", *server, *given, "spark-internal")
        super().__init__("spark-connect", command, folder, "Spark Connect server started at")
