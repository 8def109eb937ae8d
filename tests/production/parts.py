"""The processes of the production form, each as docker-compose.yml runs it."""

import sys
from collections.abc import Mapping
from pathlib import Path

from tests.background import Background, accepts, free_port
from tests.tools import require_tool

PROGRAMS = Path(sys.executable).parent


class Web(Background):
    """HTTP and WebSocket."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.port = free_port()
        super().__init__(
            "web",
            self.program(),
            folder=folder,
            environment={**environment, "RTMPWEB_HTTP": f"127.0.0.1:{self.port}"},
            ready=self.is_ready,
        )

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

    def __init__(self, name: str, folder: Path, environment: Mapping[str, str]) -> None:
        self.port = free_port()
        super().__init__(
            name,
            [sys.executable, "manage.py", "runrtmp"],
            folder=folder,
            environment={**environment, "RTMPWEB_NODE": name, "RTMPWEB_RTMP": f"127.0.0.1:{self.port}"},
            ready="Listening on rtmp://",
        )

    @property
    def url(self) -> str:
        return f"rtmp://127.0.0.1:{self.port}"


class Worker(Background):
    """A Celery worker of one queue, named after it, with one process for tasks."""

    stop_timeout_s = 60.0

    def __init__(self, queue: str, folder: Path, environment: Mapping[str, str]) -> None:
        command = ["-A", "rtmpweb", "worker", "-Q", queue, "-n", f"{queue}@%h", "-c", "1", "--loglevel", "INFO"]
        super().__init__(
            f"worker-{queue}",
            [PROGRAMS / "celery", *command],
            folder=folder,
            environment=environment,
            ready=" ready.",
        )
        if queue == "analytics":
            self.nice = 6  # About the 256 shares that docker-compose.yml gives it.


class Beat(Background):
    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        super().__init__(
            "beat",
            [PROGRAMS / "celery", "-A", "rtmpweb", "beat", "--pidfile=", "--loglevel", "INFO"],
            folder=folder,
            environment=environment,
            ready="beat: Starting...",
        )


SPARK = {
    "SPARK_LOCAL_IP": "127.0.0.1",
    "PYSPARK_PYTHON": sys.executable,  # By it the scripts find the wheel.
}


class SparkMaster(Background):
    """A standalone cluster's master, from the PySpark wheel."""

    def __init__(self, folder: Path) -> None:
        require_tool("java")
        self.port = free_port()
        command = ["--host", "127.0.0.1", "--port", str(self.port), "--webui-port", str(free_port())]
        super().__init__(
            "spark-master",
            [PROGRAMS / "spark-class", "org.apache.spark.deploy.master.Master", *command],
            folder=folder,
            environment=SPARK,
            ready="New state: ALIVE",
        )

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self.port}"


class SparkWorker(Background):
    """One core and 1 GB, as in docker-compose.yml."""

    def __init__(self, number: int, master: str, folder: Path) -> None:
        work = folder / f"spark-work-{number}"
        where = [master, "--host", "127.0.0.1", "--webui-port", str(free_port()), "--work-dir", str(work)]
        super().__init__(
            f"spark-worker-{number}",
            [
                PROGRAMS / "spark-class",
                "org.apache.spark.deploy.worker.Worker",
                *where,
                *("--cores", "1", "--memory", "1g"),
            ],
            folder=folder,
            environment=SPARK,
            ready="Successfully registered with master",
        )


class SparkConnect(Background):
    """Spark Connect's server, which is the driver: it has this machine's cores."""

    def __init__(self, folder: Path) -> None:
        require_tool("java")
        self.port = free_port()
        settings = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.ui.enabled": "false",
            "spark.sql.warehouse.dir": str(folder / "connect-warehouse"),
        }
        super().__init__(
            "spark-connect",
            [
                PROGRAMS / "spark-submit",
                *("--master", "local[2]", "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
                *(word for name, value in settings.items() for word in ("--conf", f"{name}={value}")),
                "spark-internal",
            ],
            folder=folder,
            environment=SPARK,
            ready="Spark Connect server started at",
        )

    @property
    def url(self) -> str:
        return f"sc://127.0.0.1:{self.port}"
