"""The processes of the production form, each as docker-compose.yml runs it."""

import sys
from collections.abc import Mapping
from pathlib import Path

from tests.background import Background, accepts, free_port

PROGRAMS = Path(sys.executable).parent


class Daphne(Background):
    """HTTP and WebSocket."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.port = free_port()
        super().__init__(
            "web",
            [PROGRAMS / "daphne", "-b", "127.0.0.1", "-p", str(self.port), "rtmpweb.asgi:application"],
            folder=folder,
            environment=environment,
            ready=lambda: accepts(self.port),
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


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
