"""Celery tasks on the queue `analytics`: they carry a run's id and nothing else; the run's row is the truth."""

import logging

from celery import Task, shared_task
from celery.exceptions import SoftTimeLimitExceeded
from django.conf import settings
from django.utils import timezone

from analytics import services
from analytics.reports import tasks as report_tasks  # noqa: F401 - Celery finds those of reports by this.
from analytics.reports.plans import prune_reports

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
def warm_up() -> None:
    """What a worker that does not rest sends to itself as it starts, and ends when it is ended itself."""
    if services.active_run():
        return  # The run that waits warms Spark up itself, and is done sooner.
    from analytics.spark import warm_up_spark  # Spark is loaded only where it is used.

    try:
        warm_up_spark()
    except SoftTimeLimitExceeded:
        log.info("Spark was not warmed up: the worker ends.")


@shared_task
def scheduled_run() -> None:
    """What beat sends each hour: asks for a run, unless this machine has no Java to run it with."""
    services.start_scheduled()


@shared_task
def take_up() -> None:
    """What beat sends each minute, on the queue `default`: asks again for what a queue or a worker has lost."""
    services.resume_pending()


@shared_task(soft_time_limit=SOFT_LIMIT_S, time_limit=HARD_LIMIT_S)
def keep_lake() -> None:
    """What beat sends each hour: makes the lake's files fewer, and removes what is old."""
    from analytics.lake.maintenance import maintain_lake

    maintain_lake(settings.LAKE_DIR, timezone.now())
    services.prune_runs(now=timezone.now())
    prune_reports(now=timezone.now(), days=settings.KEEP_REPORTS_DAYS)
