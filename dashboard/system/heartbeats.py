"""Heartbeats of processes: of Celery's, written to the database by a thread in each, and of the web processes.

Times are by the clock that all share (ingest.services.database).
"""

import logging
import threading
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import Error, close_old_connections, connections
from django.utils import timezone

from dashboard.models import Heartbeat
from ingest.services import database

logger = logging.getLogger(__name__)

FORGOTTEN = timedelta(days=1)
"""Rows of processes that were last heard of this long ago are removed."""

Kinds = Sequence[Heartbeat.Kind]


def write(*, kinds: Kinds, name: str, started_at: datetime, detail: dict[str, Any], now: datetime) -> None:
    fields = {"started_at": started_at, "seen_at": now, "stopped_at": None, "detail": detail}
    for kind in kinds:
        Heartbeat.objects.update_or_create(kind=kind, name=name, defaults=fields)


class HeartbeatThread:
    """Writes them for one process until it is stopped. A database that is away is tried again, and told of once."""

    def __init__(
        self,
        kinds: Kinds,
        name: str,
        detail: Callable[[], dict[str, Any]] = dict,
        *,
        is_healthy: Callable[[], bool] = lambda: True,
    ) -> None:
        """`detail` is asked once, in the thread; `is_healthy` before each beat, which is left out where it says no."""
        self._kinds = kinds
        self._name = name
        self._detail = detail
        self._is_healthy = is_healthy
        self._started_at = timezone.now()
        self._ending = threading.Event()
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="rtmpweb-heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float = 2.0) -> None:
        """Says that the process ends in order. Returns after `timeout_s` at the latest."""
        self._ending.set()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        about: dict[str, Any] = {"name": self._name, "started_at": self._started_at, "detail": self._detail()}
        own = Heartbeat.objects.filter(kind__in=self._kinds, name=self._name)
        self._write(lambda now: Heartbeat.objects.filter(seen_at__lt=now - FORGOTTEN).delete())
        while True:
            if self._is_healthy():
                self._write(lambda now: write(kinds=self._kinds, now=now, **about))
            if self._ending.wait(settings.PROCESS_BEAT_S):
                break
        self._write(lambda now: own.update(seen_at=now, stopped_at=now))

    def _write(self, work: Callable[[datetime], object]) -> None:
        try:
            close_old_connections()
            work(database.read_shared_clock())
            if self._failing:
                logger.info("The database answers again: signs of life are written.")
            self._failing = False
        except Error as error:
            if not self._failing:
                logger.warning("A sign of life was not written: %s", type(error).__name__)
            self._failing = True
        finally:
            connections.close_all()  # A worker forks: none of its processes may inherit an open connection.
