"""Analytics on a cluster of its own: a standalone master with two workers, and Spark Connect, both from the wheel."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ingest.contracts import Sample
from tests.analytics.lakes import HOUR_US, broadcast, fill
from tests.background import Background
from tests.ingest.telemetry.records import NOON
from tests.production.installation import Production, start_all
from tests.production.parts import SPARK, SparkConnect, SparkMaster, SparkWorker, Worker
from tests.server_process import wait_for

pytestmark = [pytest.mark.production, pytest.mark.timeout(400)]

RESULTS = ("analytics_rollup", "analytics_partition", "analytics_analyticsrun")

ENDED_S = 180.0
REGISTERED = "Registering app rtmpweb"
"""What the master says of a driver of ours."""

SCHEDULE = """
from django_celery_beat.models import IntervalSchedule, PeriodicTask
every, _ = IntervalSchedule.objects.get_or_create(every=1, period="seconds")
PeriodicTask.objects.create(name="soon", task="analytics.tasks.scheduled_run", interval=every, one_off=True)
"""


def samples() -> list[Sample]:
    """Two streams in two hours of two days."""
    return [
        *broadcast("demo", "a", seconds=40),
        *broadcast("demo", "b", seconds=40, start_us=NOON + 12 * HOUR_US),
        *broadcast("camera", "c", seconds=20),
    ]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkMaster]:
    folder = tmp_path_factory.mktemp("spark")
    with ExitStack() as ends:
        master = SparkMaster(folder)
        ends.callback(master.kill)
        master.start()
        workers = [SparkWorker(number, master.url, folder) for number in (1, 2)]
        for worker in workers:
            ends.callback(worker.kill)
        start_all(workers)
        yield master


@pytest.fixture(scope="module")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkConnect]:
    server = SparkConnect(tmp_path_factory.mktemp("connect"))
    server.launch()  # It is ready by the time that the test before it has computed.
    yield server
    server.kill()


def forget(production: Production) -> None:
    with psycopg.connect(production.postgres.url, autocommit=True) as connection:
        connection.execute(f"TRUNCATE {', '.join(RESULTS)} CASCADE")


def computed(production: Production, folder: Path, **where: str) -> list[tuple[Any, ...]]:
    """The rollups that `analytics run` brings to PostgreSQL, where Spark runs as the settings say."""
    forget(production)
    fill(folder / "lake", samples())
    settings = {**SPARK, "RTMPWEB_LAKE": str(folder / "lake"), **where}
    production.manage("analytics", "run", "hourly", environment=settings)
    columns = "app, name, start, samples, sessions, video_bytes, player_ms, video_kbps_mean, video_kbps_p50"
    return production.rows(f"SELECT {columns} FROM analytics_rollup ORDER BY app, name, start")  # noqa: S608


def test_every_spark_computes_the_same(
    production: Production, connect: SparkConnect, cluster: SparkMaster, tmp_path: Path
) -> None:
    expected = computed(production, tmp_path / "here")
    assert [row[1] for row in expected] == ["camera", "demo", "demo"]
    # An empty SPARK_REMOTE, as docker-compose.yml has it.
    assert computed(production, tmp_path / "cluster", SPARK_MASTER=cluster.url, SPARK_REMOTE="") == expected
    assert REGISTERED in cluster.log
    connect.wait_ready()
    assert computed(production, tmp_path / "connect", SPARK_REMOTE=connect.url) == expected


@pytest.fixture
def cluster_worker(production: Production, cluster: SparkMaster, tmp_path: Path, lake: Path) -> Iterator[Background]:
    """The analytics worker, which gives Spark's work to the cluster; in place of the form's own."""
    production.analytics.stop()
    where = {**SPARK, "SPARK_MASTER": cluster.url, "RTMPWEB_LAKE": str(lake)}
    worker = Worker("analytics", tmp_path, {**production.environment, **where})
    try:
        worker.start()
        yield worker
    finally:
        worker.stop()
        production.analytics.start()


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    fill(tmp_path / "lake", samples())
    return tmp_path / "lake"


def test_beat_asks_for_a_run_and_the_worker_gives_it_to_the_cluster(
    production: Production, cluster: SparkMaster, cluster_worker: Background
) -> None:
    """From the schedule in PostgreSQL by beat, Redis and the worker's queue to Spark and back to PostgreSQL."""
    forget(production)
    before = cluster.log.count(REGISTERED)
    production.manage("shell", "--no-imports", "-c", SCHEDULE)

    def ended() -> tuple[Any, ...] | None:
        found = production.rows("SELECT trigger, state, error FROM analytics_analyticsrun WHERE ended_at IS NOT NULL")
        return found[0] if found else None

    assert wait_for(ended, timeout_s=ENDED_S, what="the run has ended") == ("schedule", "done", "")
    rollups = production.items("/api/v1/rollups?grain=hour&stream=live/demo")
    assert [rollup["samples"] for rollup in rollups] == [40, 40]
    assert cluster.log.count(REGISTERED) == before + 1
