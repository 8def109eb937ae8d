"""Celery: tasks that fail, what our workers have beside its own parts and tell of themselves, the embedded broker."""

import contextlib
import logging
import os
import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from celery.signals import celeryd_init
from django.conf import settings
from django.db import OperationalError, connection
from django.db.migrations.recorder import MigrationRecorder
from kombu import Connection

from dashboard.models import Heartbeat
from ingest.services import installation
from rtmpweb import broker, celery
from rtmpweb.celery import app, make_broker_folders
from rtmpweb.heartbeats import worker_heartbeat
from tests.background import Background
from tests.ingest.faults import at_once
from tests.production.parts import RedisServer
from tests.rtmpweb import noting
from tests.rtmpweb.processes import PROGRAMS
from tests.server_process import copy_tables, wait_for
from tests.tools import require_tool


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


def test_worker_checks_a_formerly_locked_database_before_its_first_task(
    database: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with lock(database):
        celery.check_installation()
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
def test_resting_analytics_worker_runs_each_task_in_a_new_process(
    database: Path, queue: str, rest_after: float | None, tasks: int
) -> None:
    conf = SimpleNamespace(worker_max_tasks_per_child=200)
    options = {"queues": [queue], "rest_after": rest_after}
    celeryd_init.send(sender="worker@test", instance=None, conf=conf, options=options)
    assert conf.worker_max_tasks_per_child == tasks


def test_busy_database_is_logged_in_one_line_and_a_fault_with_traceback(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "celery")
    kept_waiting.apply(throw=False)
    broken.apply(throw=False)
    waited, fault = caplog.records
    assert "database is locked" in waited.getMessage()
    assert (waited.levelno, waited.exc_info) == (logging.INFO, None)
    assert "a fault of ours" in fault.getMessage()
    assert fault.levelno == logging.ERROR
    assert fault.exc_info


QUEUE = "noting"
WORKER = ("-A", "rtmpweb", "worker", "-I", noting.__name__, "-P", "solo", "-c", "1")

Start = Callable[..., Background]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Background] = []

    def starting(*options: str, database: str) -> Background:
        make_broker_folders(app)
        worker = Background(
            "worker",
            [PROGRAMS / "celery", *WORKER, "-Q", QUEUE, *options],
            folder=tmp_path,
            environment={"DATABASE_URL": f"sqlite:///{database}", "RTMPWEB_DATA_DIR": str(settings.DATA_DIR)},
            ready="",
        )
        started.append(worker)
        worker.launch()
        return worker

    yield starting
    for worker in started:
        worker.kill()


def exit_code(worker: Background) -> int:
    """Once it has ended by itself."""
    assert worker.process is not None
    return worker.process.wait(30)


@pytest.mark.django_db(transaction=True)
def test_worker_with_schedule_thread_runs_tasks_and_exits_when_idle(start: Start, tmp_path: Path) -> None:
    answer = tmp_path / "answer"
    noting.note.apply_async((str(answer),), queue=QUEUE)
    worker = start("--schedule-thread", "--rest-after", "1.5", database=str(connection.settings_dict["NAME"]))
    lives = Heartbeat.objects.filter(kind=Heartbeat.Kind.BEAT)
    wait_for(lives.exists, timeout_s=30, what="the schedule says that it lives")
    assert exit_code(worker) == 0, worker.log
    assert answer.read_text() == str(worker.pid)


def test_worker_exits_with_the_reason_when_its_schedule_thread_fails(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "rtmpweb.sqlite3"
    copy_tables(file)
    with contextlib.closing(sqlite3.connect(file)) as database:
        database.execute("DROP TABLE django_celery_beat_periodictasks")
    worker = start("--schedule-thread", database=str(file))
    assert exit_code(worker) == 1, worker.log
    assert "ERROR rtmpweb.bootsteps: The database refused: no such table" in worker.log, worker.log


@pytest.mark.django_db(transaction=True)
def test_worker_beyond_its_memory_limit_exits(start: Start) -> None:
    worker = start("--max-memory-per-child", "1000", database=str(connection.settings_dict["NAME"]))
    assert exit_code(worker) == 0, worker.log
    assert "it ends, to be started again" in worker.log


def told() -> dict[str, Any]:
    amqp = SimpleNamespace(queues=SimpleNamespace(consume_from=["analytics"]))
    pulse = worker_heartbeat(SimpleNamespace(app=SimpleNamespace(amqp=amqp), hostname="analytics@one"))
    pulse.start()
    rows = Heartbeat.objects.filter(kind=Heartbeat.Kind.WORKER_ANALYTICS)
    try:
        return dict(
            wait_for(lambda: rows.values_list("detail", flat=True).first(), timeout_s=30, what="a sign of life")
        )
    finally:
        pulse.stop()


@pytest.mark.both_forms
@pytest.mark.django_db(transaction=True)
def test_worker_reports_its_spark_connect_server_without_the_token(settings: Any) -> None:
    settings.SPARK_REMOTE = "sc://spark.example.org:15009/;token=secret;user_id=me"
    assert told() == {"spark": "on the Spark Connect server spark.example.org:15009"}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("master", "words"),
    [("spark://master:7077", "on the cluster spark://master:7077"), ("", "on its worker's machine")],
)
def test_worker_reports_its_spark_master_and_java_home(settings: Any, master: str, words: str) -> None:
    require_tool("java")
    settings.SPARK_REMOTE, settings.SPARK_MASTER = "", master
    assert told()["spark"] == words
    assert told()["java_home"]


COUNT = 300
BODY = "x" * 20_000
SENDERS = 4


@pytest.fixture
def broker_connection(tmp_path: Path) -> Iterator[Connection]:
    broker.register_transports()
    queue = tmp_path / "queue"
    queue.mkdir()
    options = dict.fromkeys(("data_folder_in", "data_folder_out"), str(queue))
    options["control_folder"] = str(tmp_path / "control")
    with Connection("filesystem://localhost", transport_options=options) as made:
        assert isinstance(made.transport, broker.Transport)
        yield made


def test_a_message_is_found_whole_while_others_are_being_written(broker_connection: Connection) -> None:
    got: list[int] = []

    def send() -> None:
        with broker_connection.clone() as own, own.SimpleQueue("default") as queue:
            for number in range(COUNT):
                queue.put({"number": number, "body": BODY})

    def receive() -> None:
        with broker_connection.SimpleQueue("default") as queue:
            for _ in range(COUNT):
                message = queue.get(timeout=20)
                got.append(message.payload["number"])
                message.ack()

    at_once(send, receive)
    assert sorted(got) == list(range(COUNT))


def test_unreadable_broker_message_is_skipped_and_removed(broker_connection: Connection, tmp_path: Path) -> None:
    (tmp_path / "queue" / "0_first.other.msg").write_bytes(b"")
    with broker_connection.SimpleQueue("other") as queue:
        queue.put({"number": 1})
        message = queue.get(timeout=20)
        assert message.payload == {"number": 1}
        message.ack()
    assert list((tmp_path / "queue").iterdir()) == []


def test_concurrent_queue_declarations_lose_no_message(broker_connection: Connection) -> None:
    """Each of the server's processes declares the queues when it starts."""

    def send(name: str) -> None:
        with broker_connection.clone() as own, own.SimpleQueue(name) as queue:
            queue.put({})

    for number in range(50):
        name = f"queue{number}"
        at_once(*[partial(send, name)] * SENDERS)
        with broker_connection.SimpleQueue(name) as queue:
            assert queue.qsize() == SENDERS


def test_a_lost_connection_with_a_task_that_is_not_done_yet_is_closed(tmp_path: Path) -> None:
    """As it is when Celery closes it: its transport has let go of it, and knows no address any more."""
    broker.register_transports()
    with RedisServer(tmp_path) as server:
        lost = Connection(server.url)
        with lost.SimpleQueue("tasks") as queue:
            queue.put({"task": 1})
        channel: Any = lost.default_channel
        assert channel.basic_get("tasks")
        lost.transport.client = None
        channel.close()
        assert channel.closed
