"""Delivery: messages are rows that wait, and go out by their channels. The table is the truth: a worker that dies
leaves a claim that runs out, and another goes on.

A message is claimed by compare-and-swap before it is sent, so that no two workers send it at the same time, and counted
as tried from then on. It may arrive twice where a worker dies between the answer and its row: each has an id that
receivers can tell it by. One whose kind is sent at most once (`ingest.delivery.kinds`) is given up then. Of a series
(what one receiver is told of a stream, or of an alert) the next waits for the one before to arrive or to be given up.
What people would read too late is dropped. A receiver that can't be reached is left alone for as long as the message
that found it so."""

import logging
import random
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Case, Exists, F, OuterRef, Q, QuerySet, When
from django.db.models.functions import Coalesce
from django.utils import timezone

from ingest import clean
from ingest.delivery.channel import MAX_EXCERPT, Answer, Channel
from ingest.delivery.email import EmailChannel
from ingest.delivery.kinds import kind_of, rows_that
from ingest.delivery.services import ServiceChannel
from ingest.delivery.webhook import WebhookChannel
from ingest.models import Delivery, DeliveryCount
from ingest.services.database import PASSING

CHANNELS: dict[str, type[Channel[Any]]] = {
    channel.name: channel for channel in (WebhookChannel, ServiceChannel, EmailChannel)
}

DELAYS_S = (10, 30, 120, 600, 1800, 3600, 10_800, 21_600, 21_600, 21_600)
"""Between one try and the next: about a day in all, then it is given up."""
TRIED_FOR = timedelta(seconds=sum(DELAYS_S))
JITTER = 0.2
"""Of a delay, more or less."""
RUN_S = 20.0
"""How long one go lasts; what is left is for the next."""
BACK_OFF_S = 300.0
"""At most, for what else a receiver is to be told that can't be reached."""
LONGEST_RETRY_AFTER_S = 3600.0
"""That a receiver may ask for."""
MAX_ERROR = 500
LOST = (
    "The worker was lost while this was being sent: it may have arrived, and is not sent twice. "
    "If it did not, send it again."
)
UNMADE = "It can't be made into a message: see the worker's log."

Waiting = Delivery.State.WAITING
Outcome = DeliveryCount.Outcome
_random = random.SystemRandom()
logger = logging.getLogger(__name__)


def enqueue(messages: Iterable[Delivery]) -> None:
    """Has them delivered, each once. Numbers go by the time, but after all that there are: workers' clocks differ."""
    rows = list(messages)
    last = Delivery.objects.order_by("-number").values_list("number", flat=True).first() or 0
    for number, row in enumerate(rows, max(time.time_ns() // 1000, last + 1)):
        row.number = number
    Delivery.objects.bulk_create(rows, ignore_conflicts=True)


def requeue(rows: "QuerySet[Any]", **fields: object) -> int:
    """Has them sent once more, with all their tries, at somebody's wish; how many were not on their way just now."""
    now = timezone.now()
    again = {"state": Waiting, "attempts": 0, "next_at": now, "ended_at": None, "asked_at": now}
    return rows.filter(_unclaimed(now)).update(**again, **fields)


def due(now: datetime) -> "QuerySet[Delivery]":
    """What may be sent now, oldest first: the first of each series, if nobody sends it already."""
    waiting = Delivery.objects.filter(state=Waiting)
    earlier = waiting.filter(series=OuterRef("series"), number__lt=OuterRef("number"))
    there = (Q(webhook=None) | Q(webhook__enabled=True)) & (Q(service=None) | Q(service__enabled=True))
    return waiting.filter(_unclaimed(now), there, ~Exists(earlier), next_at__lte=now).order_by("number")


def receivers(now: datetime) -> list[tuple[str, int | None]]:
    """Those that have something due, by channel, and of webhooks and services by row. One that somebody is busy with is
    left to him, but for what doesn't come last, where the channel isn't exclusive.
    """
    due_now = _receivers(due(now))
    if due_now:
        busy = due_now & _receivers(Delivery.objects.filter(state=Waiting, claimed_until__gt=now))
        urgent = _receivers(due(now).exclude(rows_that(lambda kind: kind.comes_last))) if busy else set()
        due_now -= {each for each in busy if CHANNELS[each[0]].is_exclusive or each not in urgent}
    return sorted(due_now, key=lambda receiver: (receiver[0], receiver[1] or 0))


def _receivers(rows: "QuerySet[Delivery]") -> set[tuple[str, int | None]]:
    return set(rows.order_by().values_list("channel", Coalesce("webhook", "service")).distinct())


def deliver(channel: str, receiver: int | None = None) -> int:
    """Sends what is due by a channel, of webhooks and services to one; how many were tried. Repeating it, or two at a
    time, sends nothing twice.
    """
    ends = time.monotonic() + RUN_S
    tried = 0
    with closing(CHANNELS[channel]()) as sender:
        while time.monotonic() < ends:
            rows = list(_next(channel, receiver, timezone.now())[: sender.at_once])
            lost = [row for row in rows if row.claim is not None and kind_of(row).at_most_once]
            for row in lost:
                _give_up(channel, row)
            lost += _superseded(sender, [row for row in rows if row not in lost])
            messages = [(row, _message(sender, row)) for row in rows if row not in lost]
            claimed = [(row, message) for row, message in messages if _claim(row, sender.claim_s)]
            if not (claimed or lost):
                break
            tried += len(claimed)
            if claimed and not _send(sender, receiver, claimed):
                break
    return tried


def _due_to(channel: str, receiver: int | None, now: datetime) -> "QuerySet[Delivery]":
    field = CHANNELS[channel].receiver
    rows = due(now).filter(channel=channel)
    return rows.filter(**{field: receiver}) if field else rows


def _next(channel: str, receiver: int | None, now: datetime) -> "QuerySet[Delivery]":
    last = Case(When(rows_that(lambda kind: kind.comes_last), then=1), default=0)
    return _due_to(channel, receiver, now).select_related("webhook", "service").order_by(last, "number")


def _superseded(channel: Channel[Any], rows: Sequence[Delivery]) -> list[Delivery]:
    """Those of them that are not sent, as they would help nobody any more."""
    dropped = []
    for row in rows:
        if channel.is_read and row.asked_at is None and (why := _why_superseded(row)):
            now = timezone.now()
            waits = Delivery.objects.filter(_unclaimed(now), pk=row.pk, state=Waiting)
            waits.update(state=Delivery.State.DROPPED, claim=None, claimed_until=None, ended_at=now, error=why)
            dropped.append(row)
    return dropped


def _why_superseded(row: Delivery) -> str:
    """One of which that can't be told is sent: no other waits for it."""
    asked = kind_of(row).superseded
    try:
        return asked(row) if asked is not None else ""
    except PASSING:
        raise
    except Exception:
        logger.exception("Whether %s is of use still can't be told.", row.subject)
        return ""


def _message(channel: Channel[Any], row: Delivery) -> Any:
    """An Answer: it can't be made."""
    try:
        return channel.prepare(row)
    except PASSING:
        raise
    except Exception:
        logger.exception("%s can't be made into a message.", row.subject)
        return Answer(None, UNMADE)


def _send(channel: Channel[Any], receiver: int | None, claimed: Sequence[tuple[Delivery, Any]]) -> bool:
    """Sends them, and writes down what became of them. False: nobody is there, and is left alone for a while."""
    sent = iter(channel.send([(row, message) for row, message in claimed if not isinstance(message, Answer)]))
    answers = [message if isinstance(message, Answer) else next(sent) for _, message in claimed]
    now = timezone.now()
    with transaction.atomic():
        settled = [_settle(row, answer, now) for (row, _), answer in zip(claimed, answers, strict=True)]
        DeliveryCount.add(channel.name, Counter(outcome for outcome, _ in settled))
        if not all(answer.is_away for answer in answers):
            return True
        again = now + timedelta(seconds=min(BACK_OFF_S, max(delay for _, delay in settled)))
        pks = list(_due_to(channel.name, receiver, now).values_list("pk", flat=True))
        Delivery.objects.filter(pk__in=pks, next_at__lt=again).update(next_at=again)
    return False


def _unclaimed(now: datetime) -> Q:
    return Q(claimed_until__isnull=True) | Q(claimed_until__lte=now)


def _claim(row: Delivery, claim_s: float) -> bool:
    """Whether it is ours: nobody else sends it until the claim runs out."""
    now, claim = timezone.now(), uuid.uuid4()
    free = Delivery.objects.filter(_unclaimed(now), pk=row.pk, state=Waiting, attempts=row.attempts)
    until = now + timedelta(seconds=claim_s)
    if not free.update(claim=claim, claimed_until=until, attempts=F("attempts") + 1):
        return False
    row.claim, row.attempts = claim, row.attempts + 1
    return True


def _settle(row: Delivery, answer: Answer, now: datetime) -> tuple[Outcome, float]:
    """Writes down what became of it, unless its claim ran out meanwhile. Returns that, and the seconds until the next
    try.
    """
    outcome, delay = Outcome.FAILED, 0.0
    fields: dict[str, object] = {
        "claim": None,
        "claimed_until": None,
        "status_code": answer.status,
        "error": clean.text(answer.error, MAX_ERROR),
        "response": clean.text(answer.excerpt, MAX_EXCERPT),
        "duration_ms": answer.duration_ms,
    }
    if answer.ok:
        outcome = Outcome.DONE
        fields |= {"state": Delivery.State.DONE, "ended_at": now}
    elif _is_over(row, answer, now):
        outcome = Outcome.DEAD
        fields |= {"state": Delivery.State.DEAD, "ended_at": now}
    else:
        delay = max(_delay_s(row, answer), min(answer.retry_after_s, LONGEST_RETRY_AFTER_S))
        fields["next_at"] = now + timedelta(seconds=delay)
    Delivery.objects.filter(pk=row.pk, claim=row.claim).update(**fields)
    return outcome, delay


def _is_over(row: Delivery, answer: Answer, now: datetime) -> bool:
    """Whether it is given up. Where nobody answers by the time alone, as that may be asked more often."""
    if answer.is_away:
        return now - (row.asked_at or row.created_at) > TRIED_FOR
    return answer.is_final or row.attempts > len(DELAYS_S)


def _delay_s(row: Delivery, answer: Answer) -> float:
    """Until the next try. Who could not be reached may be back any time."""
    delay = DELAYS_S[min(row.attempts, len(DELAYS_S)) - 1]
    return min(delay, BACK_OFF_S if answer.is_away else delay) * _random.uniform(1 - JITTER, 1 + JITTER)


def _give_up(channel: str, row: Delivery) -> None:
    """Ends what was being sent by a worker that is gone."""
    now = timezone.now()
    with transaction.atomic():
        lost = Delivery.objects.filter(_unclaimed(now), pk=row.pk, state=Waiting, claim=row.claim)
        if lost.update(state=Delivery.State.DEAD, claim=None, claimed_until=None, ended_at=now, error=LOST):
            DeliveryCount.add(channel, Counter([Outcome.DEAD]))
            logger.error("%s", LOST)
