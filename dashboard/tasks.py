"""Celery tasks on the queue `default`: they carry a row's id at most; the rows are the truth.

Events are taken from the outbox: of each come its messages to webhooks, and what alerts make of it. An event, its
messages and its alerts are one transaction, in which its row is locked: it is taken once, however many workers take,
and one that died half-way is taken by the next. One event each, since SQLite lets one write at a time. Those of a
stream are taken one after the other."""

import logging
import time
from collections.abc import Sequence
from datetime import datetime, timedelta

from celery import shared_task
from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from dashboard.alerts import evaluation
from dashboard.alerts import messages as alert_messages
from dashboard.alerts.rows import isolated, paced_transaction
from dashboard.models import Alert, AlertRule
from ingest.delivery import engine
from ingest.delivery.kinds import rows_that
from ingest.models import Delivery, OutboxEvent, Webhook
from ingest.models.deliveries import scoped
from ingest.services import retention
from ingest.services.database import PASSING
from ingest.services.outbox import is_for_webhooks
from ingest.tasks import deliver

EVENTS_AT_ONCE = 50
"""Events for which webhooks and rules are read once."""
RUN_S = 5.0
"""What is left after so long is for the next run."""


def handle_events(now: datetime) -> int:
    """Takes what waits, in order; how many. Raises OperationalError: what is left then waits for the next run."""
    ends = time.monotonic() + RUN_S
    count = 0
    while events := list(_waiting().order_by("at", "sequence", "pk")[:EVENTS_AT_ONCE]):
        before = count
        webhooks = list(scoped(Webhook.objects.filter(enabled=True)))
        rules = evaluation.enabled_rules()
        for event in events:
            if time.monotonic() >= ends:
                return count
            messages: list[Delivery] = []
            with isolated(f"What webhooks are told of the event {event.pk}"):  # Made before the database is held.
                messages += _messages(event, webhooks)
            with paced_transaction():
                count += _take(event, messages, rules, now)
        if count == before:  # Others take them.
            break
    return count


def _waiting() -> "QuerySet[OutboxEvent]":
    return OutboxEvent.objects.filter(taken_at__isnull=True)


def _messages(event: OutboxEvent, webhooks: Sequence[Webhook]) -> list[Delivery]:
    is_sent = is_for_webhooks(event)
    return [alert_messages.event_delivery(event, webhook) for webhook in webhooks if is_sent and webhook.wants(event)]


def _take(event: OutboxEvent, messages: Sequence[Delivery], rules: Sequence[AlertRule], now: datetime) -> bool:
    """By its time too: an event that alerts alone hear may be written anew meanwhile."""
    if _has_earlier(event):
        return False
    if not OutboxEvent.objects.filter(pk=event.pk, at=event.at, taken_at__isnull=True).update(taken_at=now):
        return False  # Another worker was first, or what it says is over.
    with isolated(f"The event {event.pk}"), transaction.atomic():
        engine.enqueue(messages)
        evaluation.handle(event, rules)
    return True


def _has_earlier(event: OutboxEvent) -> bool:
    """Whether one of its stream comes first that another worker is about to take. Numbers are a stream's: those of
    streams that are gone say nothing of one another.
    """
    if event.sequence is None or event.stream_id is None:
        return False
    earlier = OutboxEvent.objects.filter(stream=event.stream_id, sequence__lt=event.sequence)
    return earlier.filter(taken_at__isnull=True).exists()


logger = logging.getLogger(__name__)


@shared_task
def take_outbox() -> None:
    """What beat sends each few seconds: takes what happened, tells what is due, has what waits delivered.

    Where one of these fails the others are done all the same. The next run begins anew.
    """
    for step in (handle_events, evaluation.check_rules, evaluation.notify, _deliver):
        try:
            step(timezone.now())
        except PASSING as error:  # That is nobody's fault.
            logger.warning("Webhooks and alerts: %s waits for the database: %s", step.__name__, type(error).__name__)
        except Exception:
            logger.exception("Webhooks and alerts: %s failed, and is tried again with the next run.", step.__name__)


def _deliver(now: datetime) -> None:
    for channel, webhook in engine.receivers(now):
        deliver.delay(channel, webhook)


@shared_task(autoretry_for=PASSING, retry_backoff=60, max_retries=5)
def prune_told() -> None:
    """What beat sends each night: deletes what was told long ago."""
    if settings.KEEP_HOOKS_DAYS:
        before = timezone.now() - timedelta(days=settings.KEEP_HOOKS_DAYS)
        over = Q(session=None) | Q(session__ended_at__isnull=False)  # An end is told only where its begin was.
        ended = Delivery.objects.exclude(rows_that(lambda kind: kind.at_most_once)).filter(ended_at__lt=before)
        retention.in_pieces(
            OutboxEvent.objects.filter(over, at__lt=before).order_by("at"),
            ended.order_by("number"),
            Alert.objects.filter(cleared_at__lt=before).order_by("opened_at"),
        )
