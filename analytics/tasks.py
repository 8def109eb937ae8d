"""Celery tasks: they carry a row's id at most; runs, plans and reports are the truth.

Runs and reports are made on the queue `analytics`. On `default` it is found what is due: the other queue's worker need
not be there for that. Reports are sent as all messages are, by `ingest.tasks.deliver`.
"""

import logging

from celery import Task, shared_task
from celery.exceptions import SoftTimeLimitExceeded
from django.conf import settings
from django.utils import timezone

from analytics import services
from analytics.models import ReportPlan
from analytics.reports import plans

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
    plans.prune_reports(now=timezone.now(), days=settings.KEEP_REPORTS_DAYS)


AGAIN_S = 300
"""After so long it is found again what is due: requests that waited longer, as behind a run of Spark, are left out."""


@shared_task(name="analytics.reports.tasks.make_due")
def make_due(plan_id: int) -> None:
    """What beat sends at a plan's time: makes what is due by it. Repeating it makes nothing twice. What fails is tried
    again with the next run.
    """
    plan = ReportPlan.objects.select_related("stream__application").filter(pk=plan_id).first()
    if plan is None:
        return
    try:
        plans.make_due(plan, timezone.now())
    except Exception:
        log.exception("The report of the plan %s can't be made.", plan.name)


@shared_task(name="analytics.reports.tasks.due_reports")
def due_reports() -> None:
    """What beat sends every few minutes: has made what is due by any plan and is not there."""
    for plan in ReportPlan.objects.select_related("stream__application").filter(is_enabled=True):
        try:
            if next(plans.due_and_computed(plan, timezone.now()), None):
                make_due.apply_async((plan.pk,), expires=AGAIN_S)
        except Exception:  # The others are made all the same.
            log.exception("It can't be told whether a report of the plan %s is due.", plan.name)
