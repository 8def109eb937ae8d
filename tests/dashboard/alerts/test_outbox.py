"""Events are taken from the outbox, rules evaluated: a burst holds nobody up, a database that fails for a moment loses
none, what can't be told or evaluated holds up nothing else, and a deleted stream's end is told."""

from datetime import UTC, datetime, time
from typing import Any

import pytest
from django.db import DataError, OperationalError
from django.utils import timezone

from dashboard import tasks
from dashboard.alerts import messages, rows
from dashboard.models import Alert, AlertRule
from ingest.delivery import engine
from ingest.models import Application, Delivery, OutboxEvent, Stream, Webhook
from ingest.services import outbox, removal
from ingest.services.audit import Actor
from ingest.tasks import deliver
from tests.dashboard.alerts.conftest import OutboxWriter, live
from tests.dashboard.alerts.test_alerts import after, rule, run, told
from tests.dashboard.conftest import make_session, make_stream
from tests.ingest.removing import meanwhile, node_ends

pytestmark = [pytest.mark.django_db, pytest.mark.both_forms]


def take() -> int:
    return tasks.handle_events(timezone.now())


def begin_and_end(stream: Stream) -> OutboxEvent:
    """Of a publisher: the first of its two events."""
    told = live(stream)
    first = told.publish()
    told.end()
    return first


def held_by_another(monkeypatch: pytest.MonkeyPatch, event: OutboxEvent) -> None:
    """It is in another worker's hands: not seen to be taken yet."""
    waiting = OutboxEvent.objects.filter(taken_at__isnull=True).exclude(pk=event.pk)
    monkeypatch.setattr(tasks, "_waiting", lambda **_: waiting.all())


def fails_once(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """The database refuses the first messages."""
    real, errors = engine.enqueue, [error]

    def put(messages: Any) -> None:
        if errors:
            raise errors.pop()
        real(messages)

    monkeypatch.setattr(engine, "enqueue", put)


def test_each_event_is_a_transaction_with_a_pause_after_it(webhook: Webhook, monkeypatch: pytest.MonkeyPatch) -> None:
    """On SQLite one writes at a time: who admits encoders waits for one event, not for a hundred."""
    for name in ("a", "b"):
        rule(name=name)
    for number in range(12):
        live(make_stream(f"s{number}")).opened()
    pauses: list[float] = []
    taken: list[int] = []
    monkeypatch.setattr("dashboard.alerts.rows.time.sleep", pauses.append)
    real = engine.enqueue

    def put(messages: Any) -> None:
        taken.append(OutboxEvent.objects.filter(taken_at__isnull=False).count() - len(pauses))
        real(messages)

    monkeypatch.setattr(engine, "enqueue", put)
    assert take() == 12
    assert taken == [1] * 12
    assert (len(pauses), min(pauses) >= rows.PAUSE_S) == (12, True)
    assert (Alert.objects.count(), Delivery.objects.count()) == (24, 12)


def test_event_held_by_another_worker_blocks_later_events_of_its_stream_only(
    webhook: Webhook, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = begin_and_end(stream)
    other = live(make_stream("cam-2")).publish()
    with monkeypatch.context() as patched:
        held_by_another(patched, first)
        assert take() == 1
    assert list(OutboxEvent.objects.filter(taken_at__isnull=False)) == [other]
    assert take() == 2


def test_events_left_at_the_time_limit_are_taken_by_the_next_run(
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
    begin_and_end(stream)
    fails_once(monkeypatch, OperationalError("deadlock detected"))
    with pytest.raises(OperationalError):
        take()
    assert take() == 2
    assert list(Delivery.objects.order_by("number").values_list("kind", flat=True)) == ["publish", "unpublish"]


def test_event_with_data_error_is_skipped_and_logged(
    webhook: Webhook, stream: Stream, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begin_and_end(stream)
    fails_once(monkeypatch, DataError("too long"))
    assert take() == 2
    assert Delivery.objects.get().kind == "unpublish"
    assert "is left out" in caplog.text


def test_events_of_deleted_streams_do_not_wait_for_one_another(
    webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their numbers have nothing to do with one another."""
    for name in ("cam-1", "cam-2"):
        begin_and_end(make_stream(name))
    Stream.objects.all().delete()
    held_by_another(monkeypatch, OutboxEvent.objects.get(payload__name="cam-1", sequence=1))
    assert take() == 3


def test_alert_whose_delivery_fails_does_not_block_others_and_is_retried(
    publisher: OutboxWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule()
    publisher.opened("gop_long", at=after(seconds=-9))
    publisher.opened()
    real = messages.alert_deliveries

    def of_alert(alert: Alert, *rest: Any) -> list[Delivery]:
        if alert.check_code == "gop_long":
            raise DataError("too long")
        return real(alert, *rest)

    monkeypatch.setattr(messages, "alert_deliveries", of_alert)
    run()
    assert [row.body["alert"]["check"] for row in Delivery.objects.all()] == ["starving"]
    monkeypatch.undo()
    run()
    assert told() == ["alert.opened"] * 2


def test_rule_whose_evaluation_fails_does_not_block_other_rules(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        rule(name=name, kinds=["not_live"]).streams.add(stream)
    real = AlertRule.began
    monkeypatch.setattr(AlertRule, "began", lambda self, now: 1 / 0 if self.name == "a" else real(self, now))
    run()
    assert Delivery.objects.get().body["rule"] == "b"


def test_a_time_zone_that_this_machine_does_not_know_is_utc(stream: Stream) -> None:
    rule(kinds=["not_live"], time_zone="Mars/Olympus", from_time=time(18), until_time=time(20)).streams.add(stream)
    run(datetime(2026, 7, 1, 17, 59, tzinfo=UTC))
    assert told() == []
    run(datetime(2026, 7, 1, 18, 1, tzinfo=UTC))
    assert told() == ["alert.opened"]


@pytest.mark.parametrize(
    ("error", "words", "is_error"),
    [
        (ZeroDivisionError(), "check_rules failed", True),
        (
            OperationalError("database is locked"),
            "Webhooks and alerts: check_rules waits for the database: OperationalError",
            False,
        ),
    ],
    ids=["a fault", "a busy database"],
)
def test_outbox_task_continues_after_a_failed_step_and_logs_it(
    webhook: Webhook,
    publisher: OutboxWriter,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    words: str,
    is_error: bool,
) -> None:
    """A busy database is a warning without a traceback."""
    sent: list[tuple[str, int]] = []
    monkeypatch.setattr(deliver, "delay", lambda *to: sent.append(to))

    def fail(**_: Any) -> None:
        raise error

    monkeypatch.setattr(AlertRule.objects, "filter", fail)
    engine.enqueue([messages.test_delivery(webhook)])
    tasks.take_outbox()
    assert sent == [("webhook", webhook.pk)]
    assert words in caplog.text
    assert is_error is any(record.levelname == "ERROR" or record.exc_info for record in caplog.records)


MIRA = Actor("mira", None, "192.0.2.20")


def worker_hands_over() -> None:
    take()


@pytest.mark.parametrize("whole", [False, True])
def test_webhook_of_a_deleted_stream_receives_the_end_event(
    webhook: Webhook, stream: Stream, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Webhook.objects.create(name="all", url=webhook.url)
    webhook.streams.add(stream)
    session = make_session(stream)
    outbox._write([outbox._begin(session)])
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
