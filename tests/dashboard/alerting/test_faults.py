"""Alerts where something fails: one that can't be told, or judged, holds up no other."""

from datetime import UTC, datetime, time
from typing import Any

import pytest
from django.db import DataError, OperationalError

from dashboard import tasks
from dashboard.alerts import messages
from dashboard.models import Alert, AlertRule
from ingest.delivery import engine
from ingest.models import Delivery, Stream, Webhook
from ingest.tasks import deliver
from tests.dashboard.alerting.conftest import Told
from tests.dashboard.alerting.test_alarms import after, rule, run, told

pytestmark = pytest.mark.django_db


@pytest.mark.both_forms
def test_one_alert_that_can_not_be_told_holds_up_no_other(publisher: Told, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_one_rule_that_can_not_be_judged_holds_up_no_other(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        rule(name=name, about="not_live").streams.add(stream)
    real = AlertRule.began
    monkeypatch.setattr(AlertRule, "began", lambda self, now: 1 / 0 if self.name == "a" else real(self, now))
    run()
    assert Delivery.objects.get().body["rule"] == "b"


def test_a_time_zone_that_this_machine_does_not_know_is_utc(stream: Stream) -> None:
    rule(about="not_live", time_zone="Mars/Olympus", from_time=time(18), until_time=time(20)).streams.add(stream)
    run(datetime(2026, 7, 1, 17, 59, tzinfo=UTC))
    assert told() == []
    run(datetime(2026, 7, 1, 18, 1, tzinfo=UTC))
    assert told() == ["alert.opened"]


def test_where_one_step_fails_the_others_are_done(
    webhook: Webhook, publisher: Told, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sent: list[tuple[str, int]] = []
    monkeypatch.setattr(deliver, "delay", lambda *to: sent.append(to))
    monkeypatch.setattr(AlertRule.objects, "filter", lambda **_: 1 / 0)
    engine.enqueue([messages.test_delivery(webhook)])
    tasks.take_outbox()
    assert sent == [("webhook", webhook.pk)]
    assert "handle_events failed" in caplog.text


@pytest.mark.both_forms
def test_a_busy_database_is_a_warning_without_a_traceback(
    webhook: Webhook, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sent: list[tuple[str, int]] = []
    monkeypatch.setattr(deliver, "delay", lambda *to: sent.append(to))

    def locked(**_: Any) -> None:
        raise OperationalError("database is locked")

    monkeypatch.setattr(AlertRule.objects, "filter", locked)
    engine.enqueue([messages.test_delivery(webhook)])
    tasks.take_outbox()
    assert sent == [("webhook", webhook.pk)], "the others are done all the same"
    assert "Webhooks and alerts: check_rules waits for the database: OperationalError" in caplog.text
    assert not [record for record in caplog.records if record.levelname == "ERROR" or record.exc_info]
