"""What receivers are told: of events, of alerts, and to try a receiver. Each is a row that the engine delivers."""

import uuid
from datetime import datetime
from typing import Any

from django.urls import reverse
from django.utils import timezone

from dashboard.models import Alert
from ingest.delivery.engine import CHANNELS
from ingest.delivery.services import TEST, ServiceChannel
from ingest.models import Delivery, OutboxEvent, Service, Webhook
from ingest.services.media_urls import absolute_url

ALERT_WORDS = (
    "kind",
    "subject",
    "level",
    "title",
    "actual",
    "expected",
    "advice",
    "cleared_why",
    "outcome",
    "end_reason",
)
"""Of an alert, as it is."""


def event_delivery(event: OutboxEvent, webhook: Webhook) -> Delivery:
    session: dict[str, Any] = event.payload["session"]
    return Delivery(
        once=f"{event.once}:{webhook.pk}",
        webhook=webhook,
        event=event,
        kind=event.kind,
        series=_series(webhook, f"stream:{event.stream_id}" if event.stream_id else session["id"]),
        body=event.payload | {"url": absolute_url(reverse("dashboard:session", args=[session["id"]]))},
    )


def alert_deliveries(alert: Alert, kind: str, now: datetime) -> list[Delivery]:
    """What those are told whom the rule names: webhooks, services and addresses, one message each."""
    event = uuid.uuid4()
    body: dict[str, Any] = {
        "id": str(event),
        "kind": kind,
        "at": _time(now),
        "rule": alert.rule.name,
        "alert": {name: getattr(alert, name) for name in ("id", *ALERT_WORDS)}
        | {
            "check": alert.check_code,
            "session_id": str(alert.session_id) if alert.session_id else None,
            "opened_at": _time(alert.opened_at),
            "cleared_at": _time(alert.cleared_at) if alert.cleared_at else None,
        },
        "url": absolute_url(alert.page),
    }
    about = f"alert:{alert.pk}"
    once = f"{about}:{kind}:{alert.told}"
    common: dict[str, Any] = {"about": about, "kind": kind, "body": body}
    return [
        *(
            Delivery(once=f"{once}:{hook.pk}", webhook=hook, series=_series(hook, about), **common)
            for hook in alert.rule.webhooks.filter(enabled=True)
        ),
        *(
            Delivery(
                once=f"{once}:service:{service.pk}",
                channel=ServiceChannel.name,
                service=service,
                series=f"service:{service.pk}:{about}",
                **common,
            )
            for service in alert.rule.services.filter(enabled=True)
        ),
        *(
            Delivery(
                once=f"{once}:{channel}:{address}"[:255],
                channel=channel,
                address=address,
                series=f"{channel}:{address}:{alert.pk}",
                **common,
            )
            for channel, address in alert.rule.addressees
        ),
    ]


def without_waiting(repeated: list[Delivery]) -> list[Delivery]:
    """Without those to people for whom an earlier one of the alert waits: it says how things stand once it is sent."""
    waiting = Delivery.objects.filter(about__in={row.about for row in repeated}, state=Delivery.State.WAITING)
    series = set(waiting.values_list("series", flat=True))
    return [row for row in repeated if not (CHANNELS[row.channel].is_read and row.series in series)]


def test_delivery(to: Webhook | Service) -> Delivery:
    event = uuid.uuid4()
    body = {"id": str(event), "kind": TEST, "at": _time(timezone.now())}
    once = f"{TEST}:{event}"
    if isinstance(to, Webhook):
        body |= {"webhook": to.name}
        return Delivery(once=once, webhook=to, kind=TEST, series=_series(to, once), body=body)
    body |= {"service": to.name, "url": absolute_url(reverse("dashboard:alerts"))}
    return Delivery(once=once, channel=ServiceChannel.name, service=to, kind=TEST, series=once, body=body)


def _series(webhook: Webhook, of: object) -> str:
    return f"webhook:{webhook.pk}:{of}"


def _time(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")
