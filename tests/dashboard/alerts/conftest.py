"""Fixtures: a receiver that a webhook points at, and a writer of the outbox."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from django.utils import timezone

from ingest.contracts import Issue
from ingest.models import OutboxEvent, Session, Stream, Webhook
from ingest.services import outbox
from tests.dashboard.conftest import make_session
from tests.receivers import HttpReceiver, http_receiver
from tests.snapshots import issue


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    with http_receiver() as made:
        yield made


@pytest.fixture
def webhook(receiver: HttpReceiver, settings: Any, db: None) -> Webhook:
    settings.WEBHOOK_PRIVATE = True
    return Webhook.objects.create(name="graphics", url=receiver.url)


class OutboxWriter:
    """Writes a session's events to the outbox in order, as ingest does."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.number = 0

    def write(self, kind: str, at: datetime | None = None, **about: Any) -> OutboxEvent:
        self.number += 1
        when = at or timezone.now()
        once = f"{kind}:{self.session.pk}:{self.number}"
        event = outbox._event(OutboxEvent.Kind(kind), self.session, when, once, **about)
        outbox._write([event])
        return event

    def publish(self, at: datetime | None = None) -> OutboxEvent:
        return self.write("publish", at)

    def end(self, reason: str = "tcp_reset", at: datetime | None = None) -> OutboxEvent:
        when = at or timezone.now()
        Session.objects.filter(pk=self.session.pk).update(ended_at=when, end_reason=reason, end_description="It broke.")
        return self.write("unpublish", when, end={"reason": reason, "description": "It broke."})

    def opened(self, check: str = "starving", level: str = "bad", at: datetime | None = None) -> OutboxEvent:
        return self.write("health.opened", at, health=_issue(check, level))

    def cleared(self, check: str = "starving", **detail: str) -> OutboxEvent:
        return self.write("health.cleared", health={**_issue(check, "status"), **detail})


def _issue(check: str, level: str) -> Issue:
    words = {"title": "Nothing has arrived for 14 s (5 s at most).", "actual": "14 s"}
    return issue(check, level, advice="Check that the encoder is running, then its uplink.", **words)


def live(stream: Stream, **fields: Any) -> OutboxWriter:
    return OutboxWriter(make_session(stream, **fields))


@pytest.fixture
def publisher(stream: Stream) -> OutboxWriter:
    made = live(stream)
    made.publish()
    return made
