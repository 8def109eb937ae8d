"""The Spark session's life, where a cluster may end it."""

from typing import Any

import pytest
from pyspark.errors import AnalysisException

from analytics import runner
from analytics.models import AnalyticsRun
from analytics.spark import warm_up_spark
from analytics.tasks import warm_up

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("ends_java")]


def count() -> int:
    with runner.spark() as session:
        return int(session.range(5).count())


def test_a_session_that_its_cluster_has_ended_is_replaced(settings: Any) -> None:
    """As when no master answers any more: the JVM lives on, and its context is stopped."""
    settings.SPARK_MASTER = "local[1]"
    with runner.spark() as session:
        session.sparkContext._jsc.sc().stop()
    assert count() == 5


def test_an_hour_that_fails_costs_no_java_where_spark_is_on_this_machine(settings: Any) -> None:
    settings.SPARK_MASTER = "local[1]"
    assert count() == 5
    process = runner._process()
    with pytest.raises(AnalysisException), runner.spark() as session:
        session.sql("SELECT nothing")
    assert count() == 5
    assert runner._process() is process


@pytest.mark.slow("Spark does its whole work once, in a Java that has just started")
def test_spark_is_warm_before_its_first_job(settings: Any) -> None:
    settings.SPARK_MASTER = "local[1]"
    runner.stop()
    assert not runner.is_warm()
    warm_up_spark()
    assert runner.is_warm()


@pytest.mark.django_db
def test_a_run_that_waits_does_not_wait_until_spark_is_warm(settings: Any) -> None:
    settings.SPARK_MASTER = "local[1]"
    runner.stop()
    AnalyticsRun.objects.create(trigger=AnalyticsRun.Trigger.PAGE)
    warm_up()
    assert not runner.is_warm()


@pytest.mark.parametrize("waits", [False, True])
def test_a_java_that_is_killed_is_replaced_in_the_same_process(
    settings: Any, monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    """Also while its threads are still ending, when nothing can be said of it yet.

    The address of Spark Connect is empty, as docker-compose.yml gives it to each process where none is set.
    """
    settings.SPARK_MASTER = "local[1]"
    monkeypatch.setenv("SPARK_REMOTE", "")
    assert count() == 5
    process = runner._process()
    assert process
    process.kill()
    if waits:
        process.wait()
    assert count() == 5
    assert runner._process() is not process


@pytest.mark.parametrize(
    "where", [{"SPARK_MASTER": "spark://127.0.0.1:1"}, {"SPARK_REMOTE": "sc://127.0.0.1:1/;token=x"}]
)
def test_a_cluster_that_is_not_there_is_named(settings: Any, where: dict[str, str]) -> None:
    runner.stop()
    ((name, address),) = where.items()
    setattr(settings, name, address)
    with pytest.raises(runner.SparkLost, match=f"does not answer at 127.0.0.1:1. Check .* {name} says"):
        count()
