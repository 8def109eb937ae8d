"""Messages: what a receiver is told, as rows that wait, and their delivery. The table is the truth: a worker that dies
leaves a claim that runs out, and another goes on.

A message is claimed by compare-and-swap before it is sent, so that no two workers send it at the same time, and counted
as tried from then on. It may arrive twice where a worker dies between the answer and its row: each has an id that
receivers can tell it by. Of a series (what one receiver is told of a stream, or of an alert) the next waits for the
one before to arrive or to be given up. A receiver that can't be reached is left alone for as long as the message that
found it so."""

import asyncio
import json
import random
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import count
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.urls import reverse
from django.utils import timezone

from dashboard.alerts import channels
from dashboard.alerts.channels import Answer
from dashboard.models import Alert, Delivery, DeliveryCount, Webhook, addresses
from ingest import clean
from ingest.models import OutboxEvent
from ingest.services.outgoing import SIGNATURE_HEADER, absolute_url, signature


def session_url(session: object) -> str:
    """The page of a session, by its id."""
    return absolute_url(reverse("dashboard:session", args=[session]))


TEST = "test"
"""The kind of what a webhook is sent to try it."""


def enqueue(messages: Iterable[Delivery]) -> None:
    """Has them delivered, each once."""
    Delivery.objects.bulk_create(_numbered(messages), ignore_conflicts=True)


def _numbered(messages: Iterable[Delivery]) -> Iterator[Delivery]:
    """By the time, but after all that there are: workers' clocks differ, and are set."""
    last = Delivery.objects.order_by("-number").values_list("number", flat=True).first() or 0
    for number, message in zip(count(max(time.time_ns() // 1000, last + 1)), messages, strict=False):
        message.number = number
        yield message


def event_delivery(event: OutboxEvent, webhook: Webhook) -> Delivery:
    """What a webhook is told of an event."""
    session: dict[str, Any] = event.payload["session"]
    return Delivery(
        once=f"{event.once}:{webhook.pk}",
        webhook=webhook,
        event=event,
        kind=event.kind,
        series=_series(webhook, f"stream:{event.stream_id}" if event.stream_id else session["id"]),
        body=event.payload | {"url": session_url(session["id"])},
    )


def alert_deliveries(alert: Alert, kind: str, now: datetime) -> list[Delivery]:
    """What those are told whom the rule names: addresses and webhooks, one message each."""
    event = uuid.uuid4()
    body: dict[str, Any] = {
        "id": str(event),
        "kind": kind,
        "at": _time(now),
        "rule": alert.rule.name,
        "alert": {
            "id": alert.pk,
            "subject": alert.subject,
            "session_id": str(alert.session_id) if alert.session_id else None,
            "check": alert.check_code,
            "level": alert.level,
            "title": alert.title,
            "actual": alert.actual,
            "expected": alert.expected,
            "advice": alert.advice,
            "opened_at": _time(alert.opened_at),
            "cleared_at": _time(alert.cleared_at) if alert.cleared_at else None,
            "cleared_why": alert.cleared_why,
        },
        "url": absolute_url(alert.page),
    }
    once = f"alert:{alert.pk}:{kind}:{alert.told}"
    common: dict[str, Any] = {"alert": alert, "kind": kind, "body": body}
    return [
        *(
            Delivery(once=f"{once}:{hook.pk}", webhook=hook, series=_series(hook, f"alert:{alert.pk}"), **common)
            for hook in alert.rule.webhooks.filter(enabled=True)
        ),
        *(
            Delivery(once=f"{once}:{address}"[:255], email=address, series=f"{address}:{alert.pk}", **common)
            for address in addresses(alert.rule.emails)
        ),
    ]


def enqueue_test(webhook: Webhook) -> Delivery:
    """Has a webhook sent something by which it can be tried."""
    event = uuid.uuid4()
    body = {"id": str(event), "kind": TEST, "at": _time(timezone.now()), "webhook": webhook.name}
    message = Delivery(
        once=f"{TEST}:{event}", webhook=webhook, kind=TEST, series=_series(webhook, f"{TEST}:{event}"), body=body
    )
    enqueue([message])
    return message


def _series(webhook: Webhook, of: object) -> str:
    return f"webhook:{webhook.pk}:{of}"


def _time(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


DELAYS_S = (10, 30, 120, 600, 1800, 3600, 10_800, 21_600, 21_600, 21_600)
"""Between one try and the next: about a day in all, then it is given up."""
JITTER = 0.2
"""Of a delay, more or less."""
CLAIM_S = 60.0
"""Longer than the sending may take: a webhook has 10 s."""
MAIL_CLAIM_S = 180.0
"""A mail server has some ten steps of `EMAIL_TIMEOUT` for each message."""
AT_ONCE = 8
"""Messages of different series that one receiver is sent at the same time."""
RUN_S = 20.0
"""How long one task goes on; what is left is for the next."""
BACK_OFF_S = 300.0
"""At most, for what else a receiver is to be told that can't be reached."""
USER_AGENT = "rtmpweb-webhook/1"

Waiting = Delivery.State.WAITING
_random = random.SystemRandom()


def due(now: datetime) -> "QuerySet[Delivery]":
    """What may be sent now, oldest first: the first of each series, if nobody sends it already."""
    waiting = Delivery.objects.filter(state=Waiting)
    earlier = waiting.filter(series=OuterRef("series"), number__lt=OuterRef("number"))
    there = Q(webhook=None) | Q(webhook__enabled=True)
    return waiting.filter(_unclaimed(now), there, ~Exists(earlier), next_at__lte=now).order_by("number")


def receivers(now: datetime) -> tuple[list[int], bool]:
    """The webhooks that have something due and that nobody is busy with, and whether the mail server is one such."""
    found = set(due(now).order_by().values_list("webhook", flat=True).distinct())
    if found:
        claimed = Delivery.objects.filter(state=Waiting, claimed_until__gt=now).order_by()
        found -= set(claimed.values_list("webhook", flat=True).distinct())
    return sorted(pk for pk in found if pk is not None), None in found


def deliver_webhook(pk: int) -> int:
    """Sends what is due to a webhook; how many were tried."""
    webhook = Webhook.objects.filter(pk=pk).first()
    if webhook is None:
        return 0
    return _deliver(lambda now: due(now).filter(webhook=webhook), lambda those: asyncio.run(_post(webhook, those)))


def deliver_mail() -> int:
    """Sends what is due by e-mail; how many were tried. Each is claimed just before it is sent: servers may be slow."""
    with channels.mail_server() as send:
        return _deliver(lambda now: due(now).filter(webhook=None), send, at_once=1, claim_s=MAIL_CLAIM_S)


def _deliver(
    find: Callable[[datetime], "QuerySet[Delivery]"],
    send: Callable[[Sequence[Delivery]], list[Answer]],
    *,
    at_once: int = AT_ONCE,
    claim_s: float = CLAIM_S,
) -> int:
    ends = time.monotonic() + RUN_S
    tried = 0
    while time.monotonic() < ends:
        claimed = [row for row in find(timezone.now())[:at_once] if _claim(row, claim_s)]
        if not claimed:
            break
        tried += len(claimed)
        answers = send(claimed)
        now = timezone.now()
        with transaction.atomic():
            settled = [_settle(row, answer, now) for row, answer in zip(claimed, answers, strict=True)]
            DeliveryCount.add(
                "email" if claimed[0].webhook_id is None else "webhook", Counter(outcome for outcome, _ in settled)
            )
            if all(answer.status is None for answer in answers):  # Nobody is there.
                alone = timedelta(seconds=min(BACK_OFF_S, max(delay for _, delay in settled)))
                pks = list(find(now).values_list("pk", flat=True))
                Delivery.objects.filter(pk__in=pks, next_at__lt=now + alone).update(next_at=now + alone)
                break
    return tried


def _unclaimed(now: datetime) -> Q:
    return Q(claimed_until__isnull=True) | Q(claimed_until__lte=now)


def _claim(row: Delivery, claim_s: float = CLAIM_S) -> bool:
    """Whether it is ours: nobody else sends it until the claim runs out."""
    now, claim = timezone.now(), uuid.uuid4()
    free = Delivery.objects.filter(_unclaimed(now), pk=row.pk, state=Waiting, attempts=row.attempts)
    until = now + timedelta(seconds=claim_s)
    if not free.update(claim=claim, claimed_until=until, attempts=F("attempts") + 1):
        return False
    row.claim, row.attempts = claim, row.attempts + 1
    return True


def _settle(row: Delivery, answer: Answer, now: datetime) -> tuple[DeliveryCount.Outcome, float]:
    """Writes down what became of it, unless its claim ran out meanwhile. Returns that, and the seconds until the next
    try.
    """
    outcome, delay = DeliveryCount.Outcome.FAILED, 0.0
    fields: dict[str, object] = {
        "claim": None,
        "claimed_until": None,
        "status_code": answer.status,
        "error": clean.text(answer.error, 255),
        "response": clean.text(answer.excerpt, channels.MAX_EXCERPT),
        "duration_ms": answer.duration_ms,
    }
    if answer.ok:
        outcome = DeliveryCount.Outcome.DONE
        fields |= {"state": Delivery.State.DONE, "ended_at": now}
    elif row.attempts > len(DELAYS_S):
        outcome = DeliveryCount.Outcome.DEAD
        fields |= {"state": Delivery.State.DEAD, "ended_at": now}
    else:
        delay = DELAYS_S[row.attempts - 1] * _random.uniform(1 - JITTER, 1 + JITTER)
        fields["next_at"] = now + timedelta(seconds=delay)
    Delivery.objects.filter(pk=row.pk, claim=row.claim).update(**fields)
    return outcome, delay


def requeue(row: Delivery) -> bool:
    """Has it sent once more, with all its tries, at an operator's wish. False: it is on its way."""
    now = timezone.now()
    free = Delivery.objects.filter(_unclaimed(now), pk=row.pk)
    return bool(free.update(state=Waiting, attempts=0, next_at=now, ended_at=None))


async def _post(webhook: Webhook, those: Sequence[Delivery]) -> list[Answer]:
    return list(await asyncio.gather(*(_post_one(webhook, row) for row in those)))


async def _post_one(webhook: Webhook, row: Delivery) -> Answer:
    body = json.dumps(row.body, separators=(",", ":"), ensure_ascii=False).encode()
    headers = {
        "Content-Type": "application/json",
        "User-Agent": USER_AGENT,
        "X-Rtmpweb-Event": row.kind,
        "X-Rtmpweb-Id": str(row.body.get("id", row.pk)),
        "X-Rtmpweb-Delivery": str(row.pk),
        "X-Rtmpweb-Attempt": str(row.attempts),
        SIGNATURE_HEADER: signature(webhook.secret, body, time.time()),
    }
    return await channels.post(webhook.url, body, headers, private=settings.WEBHOOK_PRIVATE)
