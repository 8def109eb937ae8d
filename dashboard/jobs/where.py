"""Where the Spark jobs run and with which Java, as the analytics workers tell it with their signs of life."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings

from dashboard.models import Heartbeat


@dataclass(frozen=True, slots=True)
class Place:
    worker: str
    spark: str
    """In words; empty when it did not say."""
    java: str
    problem: str
    """What stands in the way of Spark there; empty when nothing does."""


def places(now: datetime) -> list[Place]:
    """Of each analytics worker that runs."""
    heard = now - timedelta(seconds=settings.PROCESS_LATE_S)
    alive = Heartbeat.objects.filter(kind=Heartbeat.Kind.WORKER_ANALYTICS, stopped_at__isnull=True, seen_at__gte=heard)
    return [
        Place(row.name, row.detail.get("spark", ""), row.detail.get("java_home", ""), row.detail.get("java", ""))
        for row in alive.order_by("name")
    ]
