"""What our workers have beside Celery's own parts, in real ones: the schedule's thread, rest, the bound on memory."""

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection

from dashboard.models import Heartbeat
from rtmpweb.celery import app as celery_app
from rtmpweb.celery import make_broker_folders
from tests.background import Background
from tests.production.parts import PROGRAMS
from tests.rtmpweb import noting
from tests.server_process import copy_tables, wait_for

QUEUE = "noting"
WORKER = ("-A", "rtmpweb", "worker", "-I", noting.__name__, "-P", "solo", "-c", "1")

Start = Callable[..., Background]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a worker that does its tasks itself."""
    started: list[Background] = []

    def starting(*options: str, database: str) -> Background:
        make_broker_folders(celery_app)
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
def test_one_process_does_tasks_and_keeps_the_schedule_until_it_rests(start: Start, tmp_path: Path) -> None:
    answer = tmp_path / "answer"
    noting.note.apply_async((str(answer),), queue=QUEUE)
    worker = start("--schedule-thread", "--rest-after", "2", database=str(connection.settings_dict["NAME"]))
    lives = Heartbeat.objects.filter(kind=Heartbeat.Kind.BEAT)
    wait_for(lives.exists, timeout_s=30, what="the schedule says that it lives")
    assert exit_code(worker) == 0, worker.log
    assert answer.read_text() == str(worker.pid)


def test_a_worker_whose_schedule_ends_ends_with_the_reason(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "rtmpweb.sqlite3"
    copy_tables(file)
    with contextlib.closing(sqlite3.connect(file)) as database:
        database.execute("DROP TABLE django_celery_beat_periodictasks")
    worker = start("--schedule-thread", database=str(file))
    assert exit_code(worker) == 1, worker.log
    assert "ERROR rtmpweb.bootsteps: The database refused: no such table" in worker.log, worker.log


@pytest.mark.django_db(transaction=True)
def test_a_worker_that_has_grown_ends(start: Start) -> None:
    worker = start("--max-memory-per-child", "1000", database=str(connection.settings_dict["NAME"]))
    assert exit_code(worker) == 0, worker.log
    assert "it ends, to be started again" in worker.log
