"""Takes events from the outbox: of each come its messages to webhooks, and what alerts make of it.

An event, its messages and its alerts are one transaction, in which its row is locked: it is taken once, however many
workers take, and one that died half-way is taken by the next. One event each, since SQLite lets one write at a time.
Those of a stream are taken one after the other.
"""

import time
from collections.abc import Sequence
from datetime import datetime

from django.db import transaction
from django.db.models import QuerySet

from dashboard.alerting import alarms, sending
from dashboard.alerting.models import Delivery, Webhook, scoped
from dashboard.alerting.turns import alone, turn
from ingest.models import OutboxEvent
from ingest.services.outbox import is_for_webhooks

AT_ONCE = 50
"""Events for which webhooks and rules are read once."""
RUN_S = 5.0
"""What is left after so long is for the next run."""


def take(now: datetime) -> int:
    """Takes what waits, in order; how many. Raises OperationalError: what is left then waits for the next run."""
    ends = time.monotonic() + RUN_S
    taken = 0
    while events := list(_waiting().order_by("at", "sequence", "pk")[:AT_ONCE]):
        before = taken
        webhooks = list(scoped(Webhook.objects.filter(enabled=True)))
        rules = alarms.Rules.read()
        for event in events:
            if time.monotonic() >= ends:
                return taken
            messages: list[Delivery] = []
            with alone(f"What webhooks are told of the event {event.pk}"):  # Made before the database is held.
                messages += _messages(event, webhooks)
            with turn():
                taken += _take(event, messages, rules, now)
        if taken == before:  # Others take them.
            break
    return taken


def _waiting() -> "QuerySet[OutboxEvent]":
    return OutboxEvent.objects.filter(taken_at__isnull=True)


def _messages(event: OutboxEvent, webhooks: Sequence[Webhook]) -> list[Delivery]:
    told = is_for_webhooks(event)
    return [sending.of_event(event, webhook) for webhook in webhooks if told and webhook.wants(event)]


def _take(event: OutboxEvent, messages: Sequence[Delivery], rules: alarms.Rules, now: datetime) -> bool:
    """By its time too: an event that alerts alone hear may be written anew meanwhile."""
    if _has_earlier(event):
        return False
    if not OutboxEvent.objects.filter(pk=event.pk, at=event.at, taken_at__isnull=True).update(taken_at=now):
        return False  # Another worker was first, or what it says is over.
    with alone(f"The event {event.pk}"), transaction.atomic():
        sending.put(messages)
        rules.hear(event)
    return True


def _has_earlier(event: OutboxEvent) -> bool:
    """Whether one of its stream comes first that another worker is about to take. Numbers are a stream's: those of
    streams that are gone say nothing of one another.
    """
    if event.sequence is None or event.stream_id is None:
        return False
    earlier = OutboxEvent.objects.filter(stream=event.stream_id, sequence__lt=event.sequence)
    return earlier.filter(taken_at__isnull=True).exists()
