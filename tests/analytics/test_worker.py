"""The analytics worker, its one process for tasks and Spark's Java: each is killed, and the next task has its Spark."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection

from rtmpweb.celery import app as celery_app
from rtmpweb.celery import make_broker_folders
from tests.background import Background
from tests.production.parts import SPARK
from tests.rtmpweb import noting, processes
from tests.rtmpweb.processes import PROGRAMS
from tests.server_process import wait_for
from tests.tools import require_tool

pytestmark = [
    pytest.mark.spark,
    pytest.mark.django_db(transaction=True),
    pytest.mark.matrix,
]

DONE_S = 120.0
GONE_S = 20.0
QUEUE = "counting"
TASKS = 2
"""After so many the process is replaced; in the settings it is many more."""


def start(tmp_path: Path, *words: str) -> Background:
    require_tool("java")
    make_broker_folders(celery_app)
    where = {
        "DATABASE_URL": f"sqlite:///{connection.settings_dict['NAME']}",
        "RTMPWEB_DATA_DIR": str(settings.DATA_DIR),
        "SPARK_MASTER": "local[1]",
        "TMPDIR": str(tmp_path),
    }
    command = [str(PROGRAMS / "celery"), "-A", "rtmpweb", "worker", "-c", "1", "--loglevel", "INFO", *words]
    started = Background("worker", command, folder=tmp_path, environment={**SPARK, **where}, ready=" ready.")
    started.start()
    return started


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Background]:
    started = start(tmp_path, "-Q", QUEUE, "-I", noting.__name__, "--max-tasks-per-child", str(TASKS))
    yield started
    started.kill()


class Followed:
    """The worker, task after task."""

    def __init__(self, worker: Background, folder: Path) -> None:
        self.worker = worker
        self.folder = folder
        self.tasks = 0

    def begin(self) -> Path:
        """Has Spark count; the file that is there when it has."""
        self.tasks += 1
        answer = self.folder / f"answer-{self.tasks}"
        noting.count.apply_async((str(answer),), queue=QUEUE)
        return answer

    def count(self) -> None:
        answer = self.begin()
        try:
            wait_for(answer.exists, timeout_s=DONE_S, what="Spark has counted")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.worker.log}") from None

    @property
    def pids(self) -> tuple[int, int]:
        """Of the process that asked Spark, and of its Java."""
        (child,) = processes.children(self.worker.pid)
        (java,) = wait_for(lambda: processes.children(child), timeout_s=DONE_S, what="there is a Java")
        return child, java


def check_gone(*pids: int) -> None:
    for pid in pids:
        wait_for(lambda pid=pid: pid not in processes.parents(), timeout_s=GONE_S, what=f"process {pid} has gone")  # type: ignore[misc]


def test_killed_worker_process_or_java_is_replaced_and_leaves_no_java(worker: Background, tmp_path: Path) -> None:
    followed = Followed(worker, tmp_path)
    followed.count()
    child, java = followed.pids
    os.kill(java, signal.SIGKILL)
    followed.count()  # By another Java of the same process, which has then done its tasks.
    check_gone(child)
    wait_for(lambda: len(processes.descendants(worker.pid)) == 1, timeout_s=GONE_S, what="Java has gone with it")

    followed.begin()
    child, java = followed.pids
    os.kill(child, signal.SIGKILL)  # As its hard time limit does, while it works.
    check_gone(child, java)
    # Celery gives a task that comes in this moment to the dead process; of a run's, `take_up` finds it.
    wait_for(lambda: processes.children(worker.pid), timeout_s=GONE_S, what="there is another process")

    followed.count()
    child, java = followed.pids
    os.kill(worker.pid, signal.SIGKILL)
    check_gone(child, java)


def test_worker_stopped_during_spark_warm_up_does_not_wait_for_it(tmp_path: Path) -> None:
    worker = start(tmp_path, "-Q", "analytics")
    try:
        java = wait_for(lambda: [*spark_of(worker)], timeout_s=DONE_S, what="Spark starts")
        assert worker.stop() == 0
    finally:
        worker.kill()
    check_gone(*java)
    assert "Spark was not warmed up: the worker ends." in worker.log
    assert "Traceback" not in worker.log
    assert not [*tmp_path.glob("rtmpweb-warming-*")]


def spark_of(worker: Background) -> Iterator[int]:
    """The process of its Java that has loaded Spark."""
    for pid in processes.descendants(worker.pid):
        if "org.apache.spark.deploy.SparkSubmit" in processes.command(pid):
            yield pid
