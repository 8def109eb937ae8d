"""Celery tasks on the queue `default`: they carry a row's id at most; the rows are the truth."""

import logging
from datetime import datetime, timedelta

from celery import shared_task
from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from dashboard.alerting import alarms, delivering, taking
from dashboard.alerting.models import Alert, Delivery
from ingest.models import OutboxEvent
from ingest.readonly import PASSING
from ingest.services import retention

logger = logging.getLogger(__name__)


@shared_task
def take_outbox() -> None:
    """What beat sends each few seconds: takes what happened, tells what is due, has what waits delivered.

    Where one of these fails the others are done all the same. The next run begins anew.
    """
    for step in (taking.take, alarms.look, alarms.tell, _deliver):
        try:
            step(timezone.now())
        except PASSING as error:  # That is nobody's fault.
            logger.warning("Webhooks and alerts: %s waits for the database: %s", step.__name__, type(error).__name__)
        except Exception:
            logger.exception("Webhooks and alerts: %s failed, and is tried again with the next run.", step.__name__)


def _deliver(now: datetime) -> None:
    webhooks, by_mail = delivering.receivers(now)
    for pk in webhooks:
        deliver_webhook.delay(pk)
    if by_mail:
        deliver_mail.delay()


@shared_task
def deliver_webhook(pk: int) -> None:
    """Sends what is due to one webhook. Repeating it, or two at a time, sends nothing twice."""
    delivering.deliver_webhook(pk)


@shared_task
def deliver_mail() -> None:
    """Sends what is due by e-mail."""
    delivering.deliver_mail()


@shared_task(autoretry_for=PASSING, retry_backoff=60, max_retries=5)
def prune_told() -> None:
    """What beat sends each night: deletes what was told long ago."""
    if settings.KEEP_HOOKS_DAYS:
        before = timezone.now() - timedelta(days=settings.KEEP_HOOKS_DAYS)
        over = Q(session=None) | Q(session__ended_at__isnull=False)  # An end is told only where its begin was.
        retention.in_pieces(
            OutboxEvent.objects.filter(over, at__lt=before).order_by("at"),
            Delivery.objects.filter(ended_at__lt=before).order_by("number"),
            Alert.objects.filter(cleared_at__lt=before).order_by("opened_at"),
        )
