"""Celery tasks: they carry a row's id at most; plans and reports are the truth.

Reports are made on the queue `analytics`. On `default` it is found which are due: the other queue's worker need not be
there for that. They are sent as all messages are, by `ingest.tasks.deliver`.
"""

import logging

from celery import shared_task
from django.utils import timezone

from analytics.models import ReportPlan
from analytics.reports import plans

logger = logging.getLogger(__name__)

AGAIN_S = 300
"""After so long it is found again what is due: requests that waited longer, as behind a run of Spark, are left out."""


@shared_task
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
        logger.exception("The report of the plan %s can't be made.", plan.name)


@shared_task
def due_reports() -> None:
    """What beat sends every few minutes: has made what is due by any plan and is not there."""
    for plan in ReportPlan.objects.select_related("stream__application").filter(is_enabled=True):
        if _is_ready(plan):
            make_due.apply_async((plan.pk,), expires=AGAIN_S)


def _is_ready(plan: ReportPlan) -> bool:
    """Whether there is anything to make by it. Where that can't be told of one, the others are made all the same."""
    try:
        return next(plans.due_and_computed(plan, timezone.now()), None) is not None
    except Exception:
        logger.exception("It can't be told whether a report of the plan %s is due.", plan.name)
        return False
