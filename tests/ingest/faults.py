"""Troubles of the database and of disks, work that runs at the same moment, and other processes."""

import asyncio
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from django.apps import apps
from django.db import connection as database
from django.db import connections

from ingest.consumers.decisions import WRITE
from ingest.services import nodes
from tests.background import Dialog

LOCKS = {"sqlite": "BEGIN IMMEDIATE", "postgresql": "BEGIN; LOCK TABLE {} IN EXCLUSIVE MODE"}
"""How one transaction keeps all others from writing, but not from reading, by kind of database."""


@contextmanager
def another_program() -> Iterator[Any]:
    """Yield a connection to the database. It is not one of Django's, which event loops may not use."""
    wanted = database.settings_dict
    if database.vendor == "sqlite":
        made: Any = sqlite3.connect(wanted["NAME"], isolation_level=None)
    else:
        where = {"host": wanted["HOST"], "port": wanted["PORT"], "user": wanted["USER"], "dbname": wanted["NAME"]}
        made = psycopg.connect(**where, autocommit=True)
    with closing(made):
        yield made


@contextmanager
def locked_database() -> Iterator[None]:
    """Keep all others from writing."""
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
    """Wait until the thread that writes is busy and leaves an empty task waiting."""
    async with asyncio.timeout(5):
        while (await asyncio.to_thread(wait, {WRITE.submit(int)}, 0.1)).done:
            pass


@contextmanager
def patient_database(seconds: float) -> Iterator[None]:
    """Let the thread that writes wait for locks longer than an admission may take."""
    options = database.settings_dict["OPTIONS"]
    before = dict(options)
    if database.vendor == "sqlite":
        options["timeout"] = seconds
    WRITE.submit(connections.close_all).result(10)
    if database.vendor == "postgresql":
        WRITE.submit(_execute, f"SET statement_timeout = {seconds * 1000:.0f}").result(10)
    try:
        yield
    finally:
        options.update(before)
        WRITE.submit(connections.close_all).result(10)


def _execute(statement: str) -> None:
    with database.cursor() as cursor:
        cursor.execute(statement)


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Limit the duration of a decision."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ingest.consumers.decisions.LIMIT_S", seconds)
        yield


@contextmanager
def missing_table(name: str) -> Iterator[None]:
    """Hide a table, as before a migration."""
    with another_program() as other:
        other.execute(f"ALTER TABLE {name} RENAME TO {name}_away")
        try:
            yield
        finally:
            other.execute(f"ALTER TABLE {name}_away RENAME TO {name}")


@contextmanager
def held(executor: ThreadPoolExecutor) -> Iterator[None]:
    """Hold all threads of the executor, like a database that hangs. Further work queues."""
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
    """Wait until this many tasks are in the executor's queue."""
    async with asyncio.timeout(5):
        while executor._work_queue.qsize() != count:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def in_thread(work: Callable[[], object]) -> Future[None]:
    """Run work in a daemon thread, with database connections of its own."""
    future: Future[None] = Future()

    def run() -> None:
        try:
            try:
                work()
            finally:
                connections.close_all()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(None)

    threading.Thread(target=run, daemon=True).start()
    return future


def at_once(*works: Callable[[], object]) -> None:
    begins = threading.Barrier(len(works))
    running = [in_thread(lambda work=work: (begins.wait(5), work())) for work in works]  # type: ignore[misc]
    for each in running:
        each.result(20)


class HangingDisk:
    """Hold the answers of `shutil.disk_usage` between `hang` and `let_go`, for at most 10 s."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waiting = 0
        """The number of callers that wait for an answer."""
        self._answers = threading.Event()
        self.hang, self.let_go = self._answers.clear, self._answers.set
        self._ask = shutil.disk_usage
        monkeypatch.setattr(shutil, "disk_usage", self._usage)

    def _usage(self, folder: Any) -> Any:
        self.waiting += 1
        self._answers.wait(10)
        self.waiting -= 1
        return self._ask(folder)


TELL = "import django; django.setup(); from ingest.services.nodes import *; print(own_process(), flush=True); input()"


@contextmanager
def other_process() -> Iterator[str]:
    """Run a process on this machine for as long as the block runs."""
    with Dialog("-c", TELL) as started:
        yield started.read()


def ended_process() -> str:
    """Return a process of this machine that has ended. The tests' process has its number by now."""
    return str(replace(nodes.own_process(), began="1"))


def process_elsewhere() -> str:
    """Return a process of another machine, so that nothing here can tell whether it runs."""
    return str(replace(nodes.own_process(), host="elsewhere", place="elsewhere/1"))
