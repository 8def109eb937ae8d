"""The Spark session's life, where a cluster may end it."""

from typing import Any

import pytest

from analytics import runner

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("jvm")]


def count() -> int:
    with runner.spark() as session:
        return int(session.range(5).count())


def test_a_session_that_its_cluster_has_ended_is_replaced(settings: Any) -> None:
    """As when no master answers any more: the JVM lives on, and its context is stopped."""
    settings.SPARK_MASTER = "local[1]"
    with runner.spark() as session:
        session.sparkContext._jsc.sc().stop()
    with pytest.raises(Exception, match="stopped"):
        count()
    assert count() == 5


def test_an_empty_address_of_spark_connect_is_none(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As docker-compose.yml gives it to each process where none is set."""
    settings.SPARK_MASTER = "local[1]"
    monkeypatch.setenv("SPARK_REMOTE", "")
    assert count() == 5
