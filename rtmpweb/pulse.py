"""The signs of life that Celery's processes give (`dashboard.system.heartbeats`)."""

import socket
from typing import Any

from celery.signals import worker_shutdown
from django.conf import settings

from analytics.java import JavaMissing, find_java
from dashboard.models import Heartbeat
from dashboard.system.heartbeats import Pulse

KINDS = {"default": Heartbeat.Kind.WORKER_DEFAULT, "analytics": Heartbeat.Kind.WORKER_ANALYTICS}
"""By queue."""


def worker_pulse(consumer: Any) -> Pulse:
    """Of the worker that is ready, for each queue that it takes tasks from."""
    kinds = [KINDS[queue] for queue in consumer.app.amqp.queues.consume_from if queue in KINDS]
    pulse = Pulse(kinds, consumer.hostname, _java if Heartbeat.Kind.WORKER_ANALYTICS in kinds else dict)
    worker_shutdown.connect(lambda **_: pulse.stop(), weak=False)
    return pulse


def beat_pulse() -> Pulse:
    return Pulse([Heartbeat.Kind.BEAT], f"beat@{socket.gethostname()}")


def _java() -> dict[str, Any]:
    """What stands in the way of Spark here, in words."""
    if not settings.SPARK_REMOTE:
        try:
            find_java()
        except JavaMissing as error:
            return {"java": str(error)}
    return {}
