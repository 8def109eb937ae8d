"""Ways to trouble the database that the consumers work on, and to wait for its threads."""

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

from django.db import connection as database
from django.db import connections

from ingest.consumers.database import WRITE
from ingest.services.keys import NewKey
from tests.ingest.control import Connection


@contextmanager
def locked_database() -> Iterator[None]:
    """Another program holds the database's write lock."""
    other = sqlite3.connect(database.settings_dict["NAME"], isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")
    finally:
        other.close()


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
    """New connections wait for locks longer than an admission may take."""
    options = database.settings_dict["OPTIONS"]
    before = options["timeout"]
    options["timeout"] = seconds
    reconnect()
    try:
        yield
    finally:
        options["timeout"] = before
        reconnect()


def reconnect() -> None:
    """Has the thread that writes open a new connection."""
    WRITE.submit(connections.close_all).result(10)


@contextmanager
def missing_table(name: str) -> Iterator[None]:
    """A table that can't be found, as before a migration."""
    other = sqlite3.connect(database.settings_dict["NAME"], isolation_level=None)
    try:
        other.execute(f"ALTER TABLE {name} RENAME TO {name}_away")
        try:
            yield
        finally:
            other.execute(f"ALTER TABLE {name}_away RENAME TO {name}")
    finally:
        other.close()


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
