"""Celery tasks: they carry a row's id at most; plans, reports and deliveries are the truth.

Reports are made on the queue `analytics`. They are sent there too, and on `default` when somebody asks for it: that
doesn't wait until a run of Spark has ended.
"""

import logging

from celery import shared_task
from django.utils import timezone

from analytics.models import ReportPlan
from analytics.reports import plans, sending

logger = logging.getLogger(__name__)


@shared_task
def make_due(plan_id: int) -> None:
    """What beat sends at a plan's time: makes what is due by it, and sends it. Repeating it makes nothing twice."""
    _make(ReportPlan.objects.select_related("stream__application").filter(pk=plan_id).first())
    send_waiting()


@shared_task
def due_reports() -> None:
    """What beat sends every few minutes: makes what is due by any plan and is not there, and sends what waits."""
    for plan in ReportPlan.objects.select_related("stream__application").filter(is_enabled=True):
        _make(plan)
    send_waiting()


@shared_task
def send_waiting() -> None:
    """Sends what waits and is due. Repeating it, or two at a time, sends nothing twice."""
    sending.send_due(timezone.now())


def _make(plan: ReportPlan | None) -> None:
    """Where one plan's fails, the others' are made all the same; it is tried again with the next run."""
    if plan is None:
        return
    try:
        plans.make_due(plan, timezone.now())
    except Exception:
        logger.exception("The report of the plan %s can't be made.", plan.name)
