"""Celery tasks on the queue `analytics`: they carry a run's id and nothing else; the run's row is the truth."""

import logging

from celery import Task, shared_task
from django.conf import settings

from analytics import services
from analytics.java import JavaMissing, find_java
from analytics.models import AnalyticsRun

log = logging.getLogger(__name__)

SOFT_LIMIT_S = 50 * 60
HARD_LIMIT_S = 55 * 60
BUSY_RETRY_S = 5
BUSY_RETRIES = HARD_LIMIT_S // BUSY_RETRY_S


@shared_task(bind=True, max_retries=BUSY_RETRIES, soft_time_limit=SOFT_LIMIT_S, time_limit=HARD_LIMIT_S)
def run_analytics(self: "Task[[int], None]", run_id: int) -> None:
    """Does a queued run. Repeating it does nothing: only a run that waits is claimed."""
    from analytics.pipeline import perform  # Spark is loaded only where it is used.

    try:
        run = services.claim(run_id=run_id)
    except services.Busy as busy:
        raise self.retry(exc=busy, countdown=BUSY_RETRY_S) from None
    if run is not None:
        perform(run, lake=settings.LAKE_DIR)


@shared_task
def scheduled_run() -> None:
    """What beat sends each hour: asks for a run, unless this machine has no Java to run it with."""
    if not settings.SPARK_REMOTE:
        try:
            find_java()
        except JavaMissing as error:
            log.warning("%s", error)
            return
    services.start_run(trigger=AnalyticsRun.Trigger.SCHEDULE)


@shared_task
def take_up() -> None:
    """What beat sends each minute, on the queue `default`: asks again for what a queue or a worker has lost."""
    services.take_up()
