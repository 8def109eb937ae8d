"""The Celery application: what is told of tasks that fail."""

import contextlib
import logging
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from celery.signals import celeryd_init
from django.db import OperationalError, connection
from django.db.migrations.recorder import MigrationRecorder

from ingest.services import installation
from rtmpweb import celery
from rtmpweb.celery import app
from tests.server_process import copy_tables


@app.task
def kept_waiting() -> None:
    raise OperationalError("database is locked")


@app.task
def add(one: int, other: int) -> int:
    return one + other


@app.task
def broken() -> None:
    raise ValueError("a fault of ours")


@pytest.fixture
def database(transactional_db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Of an installation whose worker is about to start."""
    if connection.vendor != "sqlite":
        pytest.skip("of this run it is a server")
    file = tmp_path / "rtmpweb.sqlite3"
    copy_tables(file)
    monkeypatch.setattr(celery, "_to_check", False)
    monkeypatch.setattr(installation, "_checked", False)
    monkeypatch.setitem(connection.settings_dict, "NAME", str(file))
    monkeypatch.setitem(connection.settings_dict, "OPTIONS", connection.settings_dict["OPTIONS"] | {"timeout": 0.1})
    connection.close()
    umask = os.umask(0o022)
    yield file
    os.umask(umask)
    connection.close()


def lock(database: Path) -> "contextlib.closing[sqlite3.Connection]":
    """Nobody reads it either."""
    holder = sqlite3.connect(database, isolation_level=None)
    holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    return contextlib.closing(holder)


def test_a_worker_whose_database_was_away_looks_at_it_before_its_first_task(
    database: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with lock(database):
        celery.look_before_the_work()
    newer = MigrationRecorder(connection)
    newer.record_applied("ingest", "9999_later")
    caplog.set_level(logging.INFO, "celery")
    assert add.apply(args=(1, 2), throw=False).failed()
    (line,) = [record for record in caplog.records if record.name == "celery.app.trace"]
    assert "The database is of a newer version: it has ingest.9999_later" in line.getMessage()
    assert line.exc_info is None
    newer.record_unapplied("ingest", "9999_later")
    assert add.apply(args=(1, 2)).get() == 3


@pytest.mark.parametrize(
    ("queue", "rest_after", "tasks"), [("analytics", 20.0, 1), ("analytics", None, 200), ("default", None, 200)]
)
def test_a_job_of_analytics_that_rest_has_a_process_of_its_own(
    database: Path, queue: str, rest_after: float | None, tasks: int
) -> None:
    conf = SimpleNamespace(worker_max_tasks_per_child=200)
    options = {"queues": [queue], "rest_after": rest_after}
    celeryd_init.send(sender="worker@test", instance=None, conf=conf, options=options)
    assert conf.worker_max_tasks_per_child == tasks


def test_a_busy_database_is_told_in_a_line_and_a_fault_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "celery")
    kept_waiting.apply(throw=False)
    broken.apply(throw=False)
    waited, fault = caplog.records
    assert "database is locked" in waited.getMessage()
    assert (waited.levelno, waited.exc_info) == (logging.INFO, None)
    assert "a fault of ours" in fault.getMessage()
    assert fault.levelno == logging.ERROR
    assert fault.exc_info
