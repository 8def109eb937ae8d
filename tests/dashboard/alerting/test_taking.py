"""Taking events: a burst of them holds nobody up, and a database that fails for a moment loses none."""

from typing import Any

import pytest
from django.db import DataError, OperationalError
from django.utils import timezone

from dashboard import tasks
from dashboard.alerts import evaluation
from dashboard.models import Alert
from ingest.delivery import engine
from ingest.models import Delivery, OutboxEvent, Stream, Webhook
from tests.dashboard.alerting.conftest import live
from tests.dashboard.alerting.test_alarms import rule
from tests.dashboard.conftest import make_stream

pytestmark = [pytest.mark.django_db, pytest.mark.both_forms]


def take() -> int:
    return tasks.handle_events(timezone.now())


def fails_once(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """The database refuses the first messages."""
    real, errors = engine.enqueue, [error]

    def put(messages: Any) -> None:
        if errors:
            raise errors.pop()
        real(messages)

    monkeypatch.setattr(engine, "enqueue", put)


def test_each_event_is_a_transaction_of_its_own_with_a_pause_after_it(
    webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On SQLite one writes at a time: who admits encoders waits for one event, not for a hundred."""
    for name in ("a", "b"):
        rule(name=name)
    for number in range(12):
        live(make_stream(f"s{number}")).opened()
    pauses: list[float] = []
    taken: list[int] = []
    monkeypatch.setattr("dashboard.alerts.evaluation.time.sleep", pauses.append)
    real = engine.enqueue

    def put(messages: Any) -> None:
        taken.append(OutboxEvent.objects.filter(taken_at__isnull=False).count() - len(pauses))
        real(messages)

    monkeypatch.setattr(engine, "enqueue", put)
    assert take() == 12
    assert taken == [1] * 12
    assert (len(pauses), min(pauses) >= evaluation.PAUSE_S) == (12, True)
    assert (Alert.objects.count(), Delivery.objects.count()) == (24, 12)


def test_none_of_a_stream_is_taken_before_the_one_that_another_worker_is_about_to_take(
    webhook: Webhook, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = live(stream)
    first = told.publish()
    told.end()
    other = live(make_stream("cam-2")).publish()
    real = OutboxEvent.objects.filter(taken_at__isnull=True)

    def look(**_: Any) -> Any:
        """The first is in the other worker's hands: it is not seen to be taken yet."""
        return real.exclude(pk=first.pk)

    with monkeypatch.context() as patched:
        patched.setattr(tasks, "_waiting", look)
        assert take() == 1
    assert list(OutboxEvent.objects.filter(taken_at__isnull=False)) == [other]
    assert take() == 2


def test_a_run_ends_and_the_next_takes_what_is_left(
    webhook: Webhook, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        live(stream).publish()
    monkeypatch.setattr(tasks, "RUN_S", 0.0)
    assert take() == 0
    monkeypatch.undo()
    assert take() == 3


def test_an_event_at_which_the_database_failed_comes_again(
    webhook: Webhook, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = live(stream)
    told.publish()
    told.end()
    fails_once(monkeypatch, OperationalError("deadlock detected"))
    with pytest.raises(OperationalError):
        take()
    assert take() == 2
    assert list(Delivery.objects.order_by("number").values_list("kind", flat=True)) == ["publish", "unpublish"]


def test_an_event_that_can_not_be_told_is_left_out(
    webhook: Webhook, stream: Stream, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    told = live(stream)
    told.publish()
    told.end()
    fails_once(monkeypatch, DataError("too long"))
    assert take() == 2
    assert Delivery.objects.get().kind == "unpublish"
    assert "is left out" in caplog.text


def test_what_was_told_of_streams_that_are_gone_waits_for_nothing(
    webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their numbers have nothing to do with one another."""
    for name in ("cam-1", "cam-2"):
        told = live(make_stream(name))
        told.publish()
        told.end()
    Stream.objects.all().delete()
    first = OutboxEvent.objects.get(payload__name="cam-1", sequence=1)
    real = OutboxEvent.objects.filter(taken_at__isnull=True)
    monkeypatch.setattr(tasks, "_waiting", lambda: real.exclude(pk=first.pk))
    assert take() == 3
