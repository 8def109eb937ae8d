"""What the analytics worker tells of itself: where Spark runs for it, with which Java, and never a secret."""

from types import SimpleNamespace
from typing import Any

import pytest

from dashboard.models import Heartbeat
from rtmpweb.heartbeats import worker_heartbeat
from tests.server_process import wait_for
from tests.tools import require_tool


def told() -> dict[str, Any]:
    queues = SimpleNamespace(consume_from=["analytics"])
    app = SimpleNamespace(amqp=SimpleNamespace(queues=queues))
    pulse = worker_heartbeat(SimpleNamespace(app=app, hostname="analytics@one"))
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
def test_a_spark_connect_server_is_told_without_its_token(settings: Any) -> None:
    settings.SPARK_REMOTE = "sc://spark.example.org:15009/;token=secret;user_id=me"
    assert told() == {"spark": "on the Spark Connect server spark.example.org:15009"}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("master", "words"),
    [("spark://master:7077", "on the cluster spark://master:7077"), ("", "on its worker's machine")],
)
def test_a_spark_of_our_own_is_told_with_its_java(settings: Any, master: str, words: str) -> None:
    require_tool("java")
    settings.SPARK_REMOTE, settings.SPARK_MASTER = "", master
    assert told()["spark"] == words
    assert told()["java_home"]
