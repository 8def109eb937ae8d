"""The production form, started by hand on free loopback ports: PostgreSQL, Redis, web, nodes, workers, beat."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import psycopg

from tests.background import Background
from tests.postgres_server import PostgresServer
from tests.production.parts import Beat, MediaNode, Web, Worker
from tests.production.settings import LONG
from tests.redis_server import RedisServer
from tests.server_process import UNSCHEDULED, Installation, wait_for

TICK_WAIT_S = 10
LOG_CHARACTERS = 3000

TAKE_UP_S = 6
"""Instead of a minute: when beat asks again for runs that a queue or a process has lost."""
TAKE_UP = """
    WITH sooner AS (INSERT INTO django_celery_beat_intervalschedule (every, period) VALUES (%s, 'seconds') RETURNING id)
    UPDATE django_celery_beat_periodictask SET interval_id = sooner.id FROM sooner
    WHERE task = 'analytics.tasks.take_up' RETURNING name
"""


class Production(Installation):
    """Every part is an attribute with start, stop, kill, pause and resume (see tests.background.Background).

    `rtmp` is the first node's address, `http` the web process's. The parts share `folder/data` and `folder/data/lake`;
    what they wrote to their output is in `folder`, and in `log`.
    """

    def __init__(self, folder: Path, *, nodes: Sequence[str] = ("node-a", "node-b"), **environment: str) -> None:
        """Starts nothing yet. `environment`: settings that all processes get. Skips without PostgreSQL or Redis."""
        data = folder / "data"
        data.mkdir(parents=True)
        self.redis = RedisServer(folder, keeps=True)
        self.postgres = PostgresServer(folder)
        shared = {
            "DATABASE_URL": self.postgres.url,
            "REDIS_URL": self.redis.url,
            "RTMPWEB_SECRET_KEY": "the secret key of a test, and of nothing else",
            "RTMPWEB_KEY_PEPPER": "the pepper of a test, and of nothing else",
            "DJANGO_SETTINGS_MODULE": "tests.production.settings",
        }
        super().__init__(data, **(shared | environment))
        self.web = Web(folder, self.environment)
        self.nodes = {name: MediaNode(name, folder, self.environment) for name in nodes}
        self.worker = Worker("default", folder, self.environment)
        self.analytics = Worker("analytics", folder, self.environment)
        self.beat = Beat(folder, self.environment)
        self.http = self.web.url
        self.rtmp = next(iter(self.nodes.values())).url

    @property
    def stores(self) -> list[Background]:
        return [self.postgres, self.redis]

    @property
    def processes(self) -> list[Background]:
        return [self.web, *self.nodes.values(), self.worker, self.analytics, self.beat]

    @property
    def parts(self) -> list[Background]:
        return [*self.processes, *self.stores]

    @property
    def log(self) -> str:
        """The last of what each part wrote."""
        return "\n".join(f"--- {part.name} ---\n{part.log[-LOG_CHARACTERS:]}" for part in self.parts)

    def start(self) -> None:
        """All of it; what doesn't need one another starts at once."""
        start_all(self.stores)
        self.manage("migrate", "--no-input", "--verbosity", "0")
        assert self.rows(UNSCHEDULED)
        if not LONG:
            assert self.rows(TAKE_UP, TAKE_UP_S)
        start_all(self.processes)
        self.wait_ready()

    def wait_ready(self) -> None:
        """Until every running node is seen by the web process."""
        running = sum(node.running for node in self.nodes.values())

        def ready() -> bool:
            status, answer = self.request("/healthz", token="")
            return status == 200 and answer["nodes"] == running

        wait_for(ready, timeout_s=TICK_WAIT_S, what=f"/healthz knows of {running} nodes")

    def stop(self) -> None:
        """Ends the processes in order, then what they stand on; whatever doesn't end in order fails, all is ended."""
        for part in self.processes:
            part.send_stop()
        faults = []
        for part in self.parts:
            try:
                part.stop()
            except AssertionError as fault:
                faults.append(str(fault))
        self.postgres.remove()
        assert not faults, "\n".join(faults)

    def create_admin(self, user: str, password: str) -> None:
        """An administrator for the pages, by `createsuperuser` as docs/operations.md says."""
        secret = {"DJANGO_SUPERUSER_PASSWORD": password}
        self.manage("createsuperuser", "--no-input", "--username", user, "--email", "", environment=secret)

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """What PostgreSQL itself answers."""
        with psycopg.connect(self.postgres.url, connect_timeout=5) as connection:
            return connection.execute(query, values).fetchall()


def start_all(parts: Iterable[Background]) -> None:
    """At once: importing is what takes their time."""
    started = list(parts)
    for part in started:
        part.launch()
    for part in started:
        part.wait_ready()
