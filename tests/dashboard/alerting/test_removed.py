"""A stream that is deleted while it is live: who is told of it is told of its end, in order."""

import pytest
from django.utils import timezone

from dashboard import tasks
from ingest.models import Application, Delivery, OutboxEvent, Session, Stream, Webhook
from ingest.services import outbox, removal
from ingest.services.audit import Actor
from tests.dashboard.conftest import make_session
from tests.ingest.removing import meanwhile, node_ends

pytestmark = [pytest.mark.django_db, pytest.mark.both_forms]

MIRA = Actor("mira", None, "192.0.2.20")


def publishes(stream: Stream) -> Session:
    """A publisher whose begin is told."""
    session = make_session(stream)
    outbox._write([outbox._begin(session)])
    return session


def worker_hands_over() -> None:
    tasks.handle_events(timezone.now())


@pytest.mark.parametrize("whole", [False, True])
def test_a_webhook_of_that_stream_is_told_of_its_end(
    webhook: Webhook, stream: Stream, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Webhook.objects.create(name="all", url=webhook.url)
    webhook.streams.add(stream)
    session = publishes(stream)
    meanwhile(monkeypatch, node_ends, worker_hands_over)
    if whole:
        removal.delete_application(MIRA, Application.objects.get(), force=True)
    else:
        removal.delete_stream(MIRA, stream, force=True)
    assert not Stream.objects.exists()
    for each in (webhook, other):
        told = Delivery.objects.filter(webhook=each).order_by("number")
        assert [(one.kind, one.body["sequence"]) for one in told] == [("publish", 1), ("unpublish", 2)]
        assert len({one.series for one in told}) == 1
        assert told[1].body["end"]["description"].endswith("was deleted by mira.")
    assert not OutboxEvent.objects.filter(taken_at=None).exists()
    session.refresh_from_db()
    assert session.stream is None
