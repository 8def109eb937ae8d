"""Analytics on a cluster of its own: a standalone master with a worker, and Spark Connect, both from the wheel.

So few rows are one task: a second worker would have nothing to do.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ingest.contracts import Sample
from tests.analytics.lakes import HOUR_US, broadcast, fill
from tests.background import Background, Dialog, free_port
from tests.ingest.telemetry.records import NOON
from tests.production.installation import Production
from tests.production.parts import SPARK, Worker
from tests.production.settings import SPREAD
from tests.rtmpweb.processes import PROGRAMS
from tests.server_process import Installation, wait_for
from tests.tools import require_tool

pytestmark = [
    pytest.mark.production,
    pytest.mark.spark,
    pytest.mark.timeout(600),
]

RESULTS = ("analytics_rollup", "analytics_partition", "analytics_analyticsrun")

ENDED_S = 300.0
WORKER_S = 20.0
"""How long a session waits for a worker: in the project it is a minute."""

REGISTERED = "Registering app rtmpweb"
"""What the master says of a driver of ours."""

SCHEDULE = """
from django_celery_beat.models import IntervalSchedule, PeriodicTask
every, _ = IntervalSchedule.objects.get_or_create(every=1, period="seconds")
PeriodicTask.objects.create(name="soon", task="analytics.tasks.scheduled_run", interval=every, one_off=True)
"""


class Spark(Background):
    """A program of the PySpark wheel that listens on loopback."""

    def __init__(self, name: str, command: Sequence[str | Path], folder: Path, ready: str) -> None:
        require_tool("java")
        program, *words = command
        super().__init__(name, [PROGRAMS / program, *words], folder=folder, environment=SPARK, ready=ready)


class SparkMaster(Spark):
    def __init__(self, folder: Path) -> None:
        port = free_port()
        self.url = f"spark://127.0.0.1:{port}"
        where = ("--host", "127.0.0.1", "--port", str(port), "--webui-port", str(free_port()))
        command = ("spark-class", "org.apache.spark.deploy.master.Master", *where)
        super().__init__("spark-master", command, folder, "New state: ALIVE")


class SparkWorker(Spark):
    """One core and 1 GB, as in docker-compose.yml."""

    def __init__(self, master: str, folder: Path) -> None:
        where = ("--host", "127.0.0.1", "--webui-port", str(free_port()))
        size = ("--work-dir", folder / "spark-work-1", "--cores", "1", "--memory", "1g")
        command = ("spark-class", "org.apache.spark.deploy.worker.Worker", master, *where, *size)
        super().__init__("spark-worker-1", command, folder, "Successfully registered with master")


class SparkConnect(Spark):
    """Spark Connect's server, which is the driver: it has this machine's cores."""

    def __init__(self, folder: Path) -> None:
        port = free_port()
        self.url = f"sc://127.0.0.1:{port}"
        settings = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(port),
            "spark.ui.enabled": "false",
            "spark.sql.warehouse.dir": str(folder / "connect-warehouse"),
        }
        given = (word for name, value in settings.items() for word in ("--conf", f"{name}={value}"))
        server = ("--master", "local[2]", "--class", "org.apache.spark.sql.connect.service.SparkConnectServer")
        command = ("spark-submit", *server, *given, "spark-internal")
        super().__init__("spark-connect", command, folder, "Spark Connect server started at")


def samples() -> list[Sample]:
    """Two streams in two hours of two days, which follow one another."""
    midnight = NOON + 12 * HOUR_US
    return [
        *broadcast("demo", "a", seconds=40, start_us=midnight - HOUR_US),
        *broadcast("demo", "b", seconds=40, start_us=midnight),
        *broadcast("camera", "c", seconds=20, start_us=midnight - HOUR_US),
    ]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkMaster]:
    folder = tmp_path_factory.mktemp("spark")
    with SparkMaster(folder) as master, SparkWorker(master.url, folder):
        yield master


@pytest.fixture(scope="module")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkConnect]:
    server = SparkConnect(tmp_path_factory.mktemp("connect"))
    server.launch()  # It is ready by the time that the test before it has computed.
    yield server
    server.kill()


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    fill(tmp_path / "lake", samples())
    return tmp_path / "lake"


@pytest.fixture
def cluster_worker(production: Production, cluster: SparkMaster, tmp_path: Path, lake: Path) -> Iterator[Background]:
    """The analytics worker, which gives Spark's work to the cluster; in place of the form's own."""
    production.analytics.stop()
    # An empty SPARK_REMOTE, as docker-compose.yml has it.
    where = {**SPARK, **SPREAD, "SPARK_MASTER": cluster.url, "SPARK_REMOTE": "", "RTMPWEB_LAKE": str(lake)}
    worker = Worker("analytics", tmp_path, {**production.environment, **where})
    worker.nice = 0  # There is nothing beside it that has to go on in real time, and all wait for it.
    try:
        worker.start()
        yield worker
    finally:
        worker.stop()
        production.analytics.start()


def forget(production: Production) -> None:
    with psycopg.connect(production.postgres.url, autocommit=True) as connection:
        connection.execute(f"TRUNCATE {', '.join(RESULTS)} CASCADE")


def rollups(production: Production) -> list[tuple[Any, ...]]:
    rows = "SELECT grain, start, dimension, value, to_jsonb(r) - 'id' FROM analytics_rollup r"
    return production.rows(f"{rows} ORDER BY 1, 2, 3, 4, app, name")


def computed(production: Production, folder: Path, **where: str) -> list[tuple[Any, ...]]:
    """The rollups that `analytics run` brings to PostgreSQL, where Spark runs as the settings say."""
    forget(production)
    fill(folder / "lake", samples())
    settings = {**SPARK, "RTMPWEB_LAKE": str(folder / "lake"), **where}
    production.manage("analytics", "run", "all", environment=settings)
    return rollups(production)


def scheduled(production: Production) -> list[tuple[Any, ...]]:
    """The rollups of a run for which beat asks: from the schedule in PostgreSQL by Redis and the worker's queue to
    Spark and back to PostgreSQL.
    """
    forget(production)
    production.manage("shell", "--no-imports", "-c", SCHEDULE)

    def ended() -> tuple[Any, ...] | None:
        found = production.rows("SELECT trigger, state, error FROM analytics_analyticsrun WHERE ended_at IS NOT NULL")
        return found[0] if found else None

    assert wait_for(ended, timeout_s=ENDED_S, what="the run has ended") == ("schedule", "done", "")
    return rollups(production)


def test_local_cluster_and_connect_spark_compute_the_same_rollups(
    production: Production, connect: SparkConnect, cluster: SparkMaster, cluster_worker: Background, tmp_path: Path
) -> None:
    """By a command itself; and by Python workers of Spark, on a cluster for the worker and on Spark Connect."""
    expected = computed(production, tmp_path / "here")
    hours = [value for grain, _, dimension, value, _ in expected if (grain, dimension) == ("hour", "stream")]
    assert hours == ["live/camera", "live/demo", "live/demo"]
    assert {grain for grain, *_ in expected} == {"hour", "day"}
    assert {dimension for _, _, dimension, *_ in expected} >= {"stream", "app", "encoder", "node", "broadcast"}
    assert scheduled(production) == expected
    assert cluster.log.count(REGISTERED) == 1
    asked = production.items("/api/v1/rollups?grain=hour&stream=live/demo")
    assert [rollup["samples"] for rollup in asked] == [40, 40]
    connect.wait_ready()
    assert computed(production, tmp_path / "connect", SPARK_REMOTE=connect.url, **SPREAD) == expected


ASKER = """
import sys
import django
django.setup()
from analytics import runner
for line in sys.stdin:
    runner.WORKER_S = float(line)
    try:
        with runner.spark() as session:
            print("told", session.range(5).count(), flush=True)
    except Exception as error:
        print("told", type(error).__name__, error, flush=True)
"""


class Asker(Dialog):
    """A process that keeps its session, as the analytics worker's does."""

    def __init__(self, folder: Path, **where: str) -> None:
        own = Installation(folder / "data", DJANGO_SETTINGS_MODULE="rtmpweb.settings").environment
        super().__init__("-c", ASKER, environment={**own, **SPARK, **where})

    def count(self, worker_s: float = WORKER_S) -> str:
        """What Spark says of five rows, or what is wrong."""
        answer = self.ask(str(worker_s))
        while not answer.startswith("told "):
            answer = self.read()
        return answer.removeprefix("told ").strip()


@pytest.mark.soak
def test_spark_connect_that_was_started_again_is_used_again(connect: SparkConnect, tmp_path: Path) -> None:
    if not connect.running:
        connect.launch()
    connect.wait_ready()
    with Asker(tmp_path, SPARK_REMOTE=connect.url) as asker:
        assert asker.count() == "5"
        connect.kill()
        connect.start()  # Not noticed: the former session is unknown to it.
        assert asker.count() == "5"
        connect.kill()
        assert asker.count().startswith("SparkLost Spark does not answer at 127.0.0.1:")


@pytest.mark.soak
def test_spark_cluster_without_workers_is_reported_and_restarted_one_used(tmp_path: Path) -> None:
    """With one worker, which is enough for it."""
    with (
        SparkMaster(tmp_path) as master,
        Asker(tmp_path, SPARK_MASTER=master.url) as asker,
        ExitStack() as ends,
    ):
        where = master.url.removeprefix("spark://")
        assert asker.count(worker_s=1).startswith(f"SparkLost The Spark cluster at {where} gave no worker")
        ends.enter_context(SparkWorker(master.url, tmp_path))

        def counted() -> bool:
            """On a busy machine an executor may take longer to start than it is waited for."""
            told = asker.count()
            assert told == "5" or told.startswith("SparkLost The Spark cluster")
            return told == "5"

        wait_for(counted, timeout_s=ENDED_S, what="it has the cluster that has a worker now")
        master.kill()
        master.start()
        wait_for(lambda: "Registering worker" in master.log, timeout_s=60, what="the worker has come back")
        # What was given to the session before may go on for a moment, or be taken from it meanwhile.
        what = "it has a session of the new master"
        wait_for(lambda: counted() and REGISTERED in master.log, timeout_s=ENDED_S, what=what)
