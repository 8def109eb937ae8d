"""The heartbeats of Celery's processes (`dashboard.system.heartbeats`)."""

import socket
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from celery.signals import worker_shutdown
from django.conf import settings

from analytics.java import JavaMissing, find_java
from dashboard.models import Heartbeat
from dashboard.system.heartbeats import HeartbeatThread

KINDS = {"default": Heartbeat.Kind.WORKER_DEFAULT, "analytics": Heartbeat.Kind.WORKER_ANALYTICS}
"""By queue."""

CONNECT_PORT = 15002
"""Of Spark Connect, where none is given."""


def worker_heartbeat(consumer: Any) -> HeartbeatThread:
    """Of the worker that is ready, for each queue that it takes tasks from."""
    kinds = [KINDS[queue] for queue in consumer.app.amqp.queues.consume_from if queue in KINDS]
    thread = HeartbeatThread(kinds, consumer.hostname, _spark if Heartbeat.Kind.WORKER_ANALYTICS in kinds else dict)
    worker_shutdown.connect(lambda **_: thread.stop(), weak=False)
    return thread


def schedule_heartbeat(is_healthy: Callable[[], bool]) -> HeartbeatThread:
    return HeartbeatThread([Heartbeat.Kind.BEAT], f"beat@{socket.gethostname()}", is_healthy=is_healthy)


def idle_worker_heartbeat(is_healthy: Callable[[], bool]) -> HeartbeatThread:
    """Of an analytics worker that is started when there is work for it."""
    return HeartbeatThread(
        [Heartbeat.Kind.WORKER_ANALYTICS], f"analytics@{socket.gethostname()}", _spark, is_healthy=is_healthy
    )


def _spark() -> dict[str, Any]:
    """Where Spark runs for this worker and with which Java; `java`: what stands in its way, in words."""
    if settings.SPARK_REMOTE:
        server = urlsplit(settings.SPARK_REMOTE)  # What comes after its host may be a token.
        return {"spark": f"on the Spark Connect server {server.hostname}:{server.port or CONNECT_PORT}"}
    place = f"on the cluster {settings.SPARK_MASTER}" if settings.SPARK_MASTER else "on its worker's machine"
    try:
        return {"spark": place, "java_home": str(find_java())}
    except JavaMissing as error:
        return {"spark": place, "java": str(error)}
