"""The production form on free loopback ports: PostgreSQL, Redis, web process, nodes, workers, beat."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg

from tests.background import Background, start_all
from tests.production.parts import Beat, MediaNode, PostgresServer, RedisServer, Web, Worker
from tests.production.settings import LONG
from tests.server_process import UNSCHEDULED, Installation, wait_for

TICK_WAIT_S = 10
LOG_CHARACTERS = 3000

TAKE_UP_S = 6
"""Interval at which beat asks again for runs that a queue or a process has lost. In production it is a minute."""
TAKE_UP = """
    WITH sooner AS (INSERT INTO django_celery_beat_intervalschedule (every, period) VALUES (%s, 'seconds') RETURNING id)
    UPDATE django_celery_beat_periodictask SET interval_id = sooner.id FROM sooner
    WHERE task = 'analytics.tasks.take_up' RETURNING name
"""


class Production(Installation):
    """Every part is an attribute with start, stop, kill, pause and resume (see tests.background.Background).

    `rtmp` is the first node's address, `http` the web process's. The parts share `folder/data` and `folder/data/lake`;
    their logs are in `folder`.
    """

    def __init__(self, folder: Path, *, nodes: Sequence[str] = ("node-a", "node-b"), **environment: str) -> None:
        """Start nothing yet. `environment` has settings for all processes. Skip without PostgreSQL or Redis."""
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
        self.stores: list[Background] = [self.postgres, self.redis]
        self.processes = [self.web, *self.nodes.values(), self.worker, self.analytics, self.beat]

    @property
    def log(self) -> str:
        """The end of each part's log."""
        parts = [*self.processes, *self.stores]
        return "\n".join(f"--- {part.name} ---\n{part.log[-LOG_CHARACTERS:]}" for part in parts)

    def start(self) -> None:
        start_all(self.stores)
        self.manage("migrate", "--no-input", "--verbosity", "0")
        assert self.rows(UNSCHEDULED)
        if not LONG:
            assert self.rows(TAKE_UP, TAKE_UP_S)
        start_all(self.processes)
        self.wait_ready()

    def wait_ready(self) -> None:
        """Wait until the web process sees every running node."""
        running = sum(node.running for node in self.nodes.values())

        def ready() -> bool:
            status, answer = self.request("/healthz", token="")
            return status == 200 and answer["nodes"] == running

        wait_for(ready, timeout_s=TICK_WAIT_S, what=f"/healthz knows of {running} nodes")

    def stop(self) -> None:
        """End the processes in order, then the stores. Fail if any of them does not end in order."""
        for part in self.processes:
            part.send_stop()
        faults = []
        for part in [*self.processes, *self.stores]:
            try:
                part.stop()
            except AssertionError as fault:
                faults.append(str(fault))
        self.postgres.remove()
        assert not faults, "\n".join(faults)

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.postgres.url, connect_timeout=5) as connection:
            return connection.execute(query, values).fetchall()
