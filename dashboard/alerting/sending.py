"""Messages: what a receiver is told, as rows that wait to be delivered."""

import time
import uuid
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import count
from typing import Any

from django.utils import timezone

from dashboard.alerting import links
from dashboard.alerting.models import Alert, Delivery, Webhook, addresses
from ingest.links import absolute
from ingest.models import OutboxEvent

TEST = "test"
"""The kind of what a webhook is sent to try it."""


def put(messages: Iterable[Delivery]) -> None:
    """Has them delivered, each once."""
    Delivery.objects.bulk_create(_numbered(messages), ignore_conflicts=True)


def _numbered(messages: Iterable[Delivery]) -> Iterator[Delivery]:
    """By the time, but after all that there are: workers' clocks differ, and are set."""
    last = Delivery.objects.order_by("-number").values_list("number", flat=True).first() or 0
    for number, message in zip(count(max(time.time_ns() // 1000, last + 1)), messages, strict=False):
        message.number = number
        yield message


def of_event(event: OutboxEvent, webhook: Webhook) -> Delivery:
    """What a webhook is told of an event."""
    session: dict[str, Any] = event.payload["session"]
    return Delivery(
        once=f"{event.once}:{webhook.pk}",
        webhook=webhook,
        event=event,
        kind=event.kind,
        series=_series(webhook, f"stream:{event.stream_id}" if event.stream_id else session["id"]),
        body=event.payload | {"url": links.session_url(session["id"])},
    )


def of_alert(alert: Alert, kind: str, now: datetime) -> list[Delivery]:
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
        "url": absolute(alert.page),
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


def put_test(webhook: Webhook) -> Delivery:
    """Has a webhook sent something by which it can be tried."""
    event = uuid.uuid4()
    body = {"id": str(event), "kind": TEST, "at": _time(timezone.now()), "webhook": webhook.name}
    message = Delivery(
        once=f"{TEST}:{event}", webhook=webhook, kind=TEST, series=_series(webhook, f"{TEST}:{event}"), body=body
    )
    put([message])
    return message


def _series(webhook: Webhook, of: object) -> str:
    return f"webhook:{webhook.pk}:{of}"


def _time(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")
