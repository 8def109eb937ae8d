"""Ways to trouble the database that the consumers work on, and disks; works that run at the same moment; and waiting
for the database's threads."""

import asyncio
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from typing import Any, Protocol, cast

import psycopg
import pytest
from django.apps import apps
from django.db import connection as database
from django.db import connections

from ingest.consumers.decisions import WRITE
from ingest.services.keys import NewKey
from tests.ingest.control import Connection

LOCKS = {
    "sqlite": "BEGIN IMMEDIATE",
    "postgresql": "BEGIN; LOCK TABLE {} IN EXCLUSIVE MODE",
}
"""{kind of database: how one transaction keeps all others from writing, but not from reading}"""


class Program(Protocol):
    """A connection, of either database's library."""

    def execute(self, statement: str) -> object: ...

    def close(self) -> None: ...


def another_connection() -> Program:
    """Not Django's, which event loops may not use."""
    wanted = database.settings_dict
    if database.vendor == "sqlite":
        return sqlite3.connect(wanted["NAME"], isolation_level=None)
    where = {"host": wanted["HOST"], "port": wanted["PORT"], "user": wanted["USER"], "dbname": wanted["NAME"]}
    return cast(Program, psycopg.connect(**where, autocommit=True))


@contextmanager
def another_program() -> Iterator[Program]:
    """Executes statements on a connection of its own."""
    with closing(another_connection()) as other:
        yield other


@contextmanager
def locked_database() -> Iterator[None]:
    """Another program keeps all others from writing."""
    tables = ", ".join(model._meta.db_table for model in apps.get_app_config("ingest").get_models())
    with another_program() as other:
        while True:
            try:
                other.execute(LOCKS[database.vendor].format(tables))
                break
            except psycopg.errors.DeadlockDetected:  # With a transaction that took some of the tables in another order.
                other.execute("ROLLBACK")
        yield
        other.execute("ROLLBACK")


async def writing() -> None:
    """Waits until the thread that writes is at work: then it doesn't get to an empty task."""
    async with asyncio.timeout(5):
        while (await asyncio.to_thread(wait, {WRITE.submit(int)}, 0.1)).done:
            pass


async def until_accepted(connection: Connection, key: NewKey) -> dict[str, Any]:
    """Asks again until the stream is free."""
    async with asyncio.timeout(10):
        while (answer := await connection.publish(key.secret))["type"] != "rtmp.publish.accept":  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return answer


@contextmanager
def patient_database(seconds: float) -> Iterator[None]:
    """The thread that writes waits for locks longer than an admission may take."""
    options = database.settings_dict["OPTIONS"]
    before = dict(options)
    if database.vendor == "sqlite":
        options["timeout"] = seconds
    reconnect()
    if database.vendor == "postgresql":
        WRITE.submit(_execute, f"SET statement_timeout = {seconds * 1000:.0f}").result(10)
    try:
        yield
    finally:
        options.update(before)
        reconnect()


def _execute(statement: str) -> None:
    with database.cursor() as cursor:
        cursor.execute(statement)


def reconnect() -> None:
    """Has the thread that writes open a new connection."""
    WRITE.submit(connections.close_all).result(10)


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """A decision may take so long only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ingest.consumers.decisions.LIMIT_S", seconds)
        yield


@contextmanager
def missing_table(name: str) -> Iterator[None]:
    """A table that can't be found, as before a migration."""
    with another_program() as other:
        other.execute(f"ALTER TABLE {name} RENAME TO {name}_away")
        try:
            yield
        finally:
            other.execute(f"ALTER TABLE {name}_away RENAME TO {name}")


@contextmanager
def held(executor: ThreadPoolExecutor) -> Iterator[None]:
    """All threads of the executor are held, as by a database that hangs; what is asked meanwhile queues."""
    threads = executor._max_workers
    gate, inside = threading.Event(), threading.Barrier(threads + 1)

    def hold() -> None:
        inside.wait(5)
        gate.wait(20)

    for _ in range(threads):
        executor.submit(hold)
    inside.wait(5)
    try:
        yield
    finally:
        gate.set()


async def until_queued(executor: ThreadPoolExecutor, count: int) -> None:
    """Waits until so much work stands in the executor's queue."""
    async with asyncio.timeout(5):
        while executor._work_queue.qsize() != count:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


class Work(threading.Thread):
    """`finish` raises what it raised."""

    def __init__(self, work: Callable[[], object], begins: threading.Barrier | None = None) -> None:
        super().__init__(daemon=True)
        self._work = work
        self._begins = begins
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            if self._begins is not None:
                self._begins.wait(5)
            self._work()
        except BaseException as error:
            self._error = error
        finally:
            connections.close_all()

    def finish(self) -> None:
        self.join(20)
        assert not self.is_alive(), "it hangs"
        if self._error is not None:
            raise self._error


def at_once(*works: Callable[[], object]) -> None:
    begins = threading.Barrier(len(works))
    running = [Work(work, begins) for work in works]
    for each in running:
        each.finish()


GIVES_UP_S = 10.0
"""So that who does wait for it fails, and not the whole run."""


class HangingDisk:
    """What `shutil.disk_usage` asks, while it `hangs`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waiting = 0
        """Who waits for an answer."""
        self._answers = threading.Event()
        self._ask = shutil.disk_usage
        monkeypatch.setattr(shutil, "disk_usage", self._usage)

    def hang(self) -> None:
        self._answers.clear()

    def let_go(self) -> None:
        self._answers.set()

    def _usage(self, folder: Any) -> Any:
        self.waiting += 1
        try:
            self._answers.wait(GIVES_UP_S)
        finally:
            self.waiting -= 1
        return self._ask(folder)
