"""Alerts: told once when something opens and once when it clears, to whom and when the rule says; when they end, or are
quiet, by what people do."""

from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest
from django.db.models.deletion import Collector
from django.utils import timezone

from dashboard import tasks
from dashboard.alerts import evaluation
from dashboard.models import Alert, AlertRule
from dashboard.streams import actions as streams_actions
from ingest.models import Application, Delivery, Node, Session, StatusEvent, Stream, Webhook
from ingest.services import nodes, outbox
from ingest.services.audit import Actor
from tests.dashboard.alerts.conftest import Told, live
from tests.snapshots import issue

pytestmark = pytest.mark.django_db

OPERATOR = Actor("omar")


def rule(**fields: Any) -> AlertRule:
    values = {"name": "Night shift", "level": "warning", "delay_s": 0, "emails": "a@example.org"}
    return AlertRule.objects.create(**values | fields)


def run(now: datetime | None = None) -> None:
    """What beat has done."""
    now = now or timezone.now()
    tasks.handle_events(now)
    evaluation.check_rules(now)
    evaluation.notify(now)


def told() -> list[str]:
    return list(Delivery.objects.order_by("number").values_list("kind", flat=True))


def after(**span: float) -> datetime:
    return timezone.now() + timedelta(**span)


def acknowledge(publisher: Told, level: str) -> None:
    about = {"code": "starving", "at": timezone.now(), "detail": {"level": level}}
    StatusEvent.objects.create(session=publisher.session, sequence=10**6, kind=streams_actions.ACKNOWLEDGED, **about)


@pytest.mark.both_forms
def test_an_issue_is_told_once_and_its_end_once(publisher: Told, webhook: Webhook) -> None:
    watching = rule(emails="a@example.org, b@example.org")
    watching.webhooks.add(webhook)
    webhook.kinds = ["recording.done"]
    webhook.save()
    publisher.opened()
    for _ in range(3):
        run()
    assert told() == ["alert.opened"] * 3
    publisher.cleared()
    for _ in range(3):
        run(after(seconds=60))
    assert told() == ["alert.opened"] * 3 + ["alert.cleared"] * 3
    assert set(Delivery.objects.values_list("address", flat=True)) == {"", "a@example.org", "b@example.org"}
    body = Delivery.objects.filter(kind="alert.cleared").first().body  # type: ignore[union-attr]
    assert body["rule"] == "Night shift"
    assert body["url"] == f"http://127.0.0.1:8000/sessions/{publisher.session.pk}/"
    assert body["alert"]["subject"] == "live/cam-1"
    assert body["alert"]["expected"] == "at most 5 s"
    assert body["alert"]["cleared_why"] == "The issue is over."


def test_the_delay_passes_and_what_clears_before_is_told_nobody(publisher: Told) -> None:
    rule(delay_s=30)
    publisher.opened()
    publisher.opened("gop_long")
    run()
    assert told() == []
    publisher.cleared("gop_long")
    run(after(seconds=31))
    assert (told(), Alert.objects.get().check_code) == (["alert.opened"], "starving")


def test_what_is_told_while_it_clears_has_its_end_told_too(publisher: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another worker tells of it between the statements by which it clears."""
    rule()
    publisher.opened()
    now = timezone.now()
    tasks.handle_events(now)
    publisher.cleared()
    real, others = Collector.delete, [evaluation.notify]

    def delete(collector: Collector) -> Any:
        if others:
            others.pop()(now)
        return real(collector)

    monkeypatch.setattr(Collector, "delete", delete)
    run()
    run()
    assert not others
    assert told() in ([], ["alert.opened", "alert.cleared"])


@pytest.mark.both_forms
def test_no_issue_is_missed_among_many(publisher: Told, webhook: Webhook) -> None:
    """As where an uplink breaks. Webhooks are told so many a minute; what is bad and lasts is alerted all the same."""
    rule(level="bad")
    most = outbox.MAX_OPENED_A_MINUTE
    now = timezone.now()

    def happens(number: int, check: str, level: str, kind: str = "health.opened") -> None:
        at = now + timedelta(seconds=number)
        event = StatusEvent(session=publisher.session, sequence=number, at=at, kind=kind, level=level, code=check)
        event.save()
        outbox.notify([event], outbox.hold_of([event.session_id]))

    for number in range(most):
        happens(number, f"check-{number}", "warning")
    happens(30, "starving", "bad")
    run(after(seconds=31))
    run(after(minutes=30))
    assert told().count("alert.opened") == 1
    assert told().count("health.opened") == most
    happens(40, "starving", "status", "health.cleared")
    run(after(minutes=31))
    assert told()[-1] == "alert.cleared"
    assert "health.cleared" not in told()


def test_rules_choose_by_check_level_and_stream(publisher: Told, stream: Stream) -> None:
    other = Stream.objects.create(application=stream.application, name="cam-9")
    rule(name="of another").streams.add(other)
    rule(name="bad only", level="bad", checks=["gop_long"])
    rule(name="off", enabled=False)
    rule(name="here").applications.add(stream.application)
    publisher.opened("gop_long", "warning")
    run()
    assert [alert.rule.name for alert in Alert.objects.all()] == ["here"]
    publisher.opened("gop_long", "bad")
    run()
    assert sorted(alert.rule.name for alert in Alert.objects.all()) == ["bad only", "here"]
    assert told() == ["alert.opened"] * 2
    publisher.opened("gop_long", "warning")
    run()
    (cleared,) = Alert.objects.filter(cleared_at__isnull=False)
    assert (cleared.rule.name, cleared.cleared_why) == ("bad only", "It is at level warning now.")


def test_it_is_repeated_as_the_rule_says(publisher: Told) -> None:
    rule(repeat_min=10)
    publisher.opened()
    for minutes in (0, 5, 11, 15, 22):
        run(after(minutes=minutes))
    assert told() == ["alert.opened", "alert.repeated", "alert.repeated"]


def test_a_muted_stream_is_quiet_also_of_what_clears(publisher: Told, stream: Stream) -> None:
    rule(repeat_min=10)
    streams_actions.mute(stream, OPERATOR, check="starving")
    publisher.opened()
    publisher.opened("gop_long")
    run()
    assert [row.body["alert"]["check"] for row in Delivery.objects.all()] == ["gop_long"]
    assert evaluation.silence_reason(Alert.objects.get(check_code="starving"), timezone.now()) == "The stream is muted."
    streams_actions.unmute(stream, OPERATOR)
    run()
    assert told() == ["alert.opened"] * 2
    streams_actions.mute(stream, OPERATOR)
    publisher.cleared()
    run()
    streams_actions.unmute(stream, OPERATOR)
    run()
    assert told() == ["alert.opened"] * 2


def test_an_acknowledged_issue_is_not_repeated_but_its_end_is_told(publisher: Told) -> None:
    rule(repeat_min=10)
    publisher.opened(at=after(seconds=-5))
    run()
    acknowledge(publisher, "bad")
    run(after(minutes=11))
    assert told() == ["alert.opened"]
    publisher.cleared()
    run(after(minutes=12))
    assert told() == ["alert.opened", "alert.cleared"]


@pytest.mark.parametrize("reason", ["tcp_reset", "idle_timeout", "node_lost", "protocol_error"])
def test_a_stream_that_is_lost_and_comes_back(publisher: Told, stream: Stream, reason: str) -> None:
    rule(about="ended", delay_s=20)
    publisher.end(reason)
    run()
    assert told() == []
    run(after(seconds=21))
    assert told() == ["alert.opened"]
    assert reason.replace("_", " ") in Alert.objects.get().title
    live(stream).publish()
    run(after(seconds=30))
    assert told() == ["alert.opened", "alert.cleared"]
    assert Alert.objects.get().cleared_why == "It is back."


def test_a_stream_that_is_back_in_time_is_told_nobody(publisher: Told, stream: Stream) -> None:
    rule(about="ended", delay_s=20)
    publisher.end()
    run()
    live(stream).publish()
    run(after(seconds=30))
    assert told() == []


@pytest.mark.parametrize("reason", ["client_unpublish", "kicked", "key_revoked", "replaced", "node_shutdown"])
def test_an_end_that_was_meant_is_no_alert(publisher: Told, reason: str) -> None:
    rule(about="ended")
    publisher.end(reason)
    run()
    assert not Alert.objects.exists()


@pytest.mark.both_forms
def test_a_stream_that_should_be_live(stream: Stream) -> None:
    evening = {"from_time": time(18), "until_time": time(20), "time_zone": "Europe/Berlin"}
    rule(about="not_live", delay_s=60, **evening).streams.add(stream)
    run(datetime(2026, 7, 1, 15, 59, tzinfo=UTC))
    assert not Alert.objects.exists()
    run(datetime(2026, 7, 1, 16, 0, 30, tzinfo=UTC))
    assert (Alert.objects.count(), told()) == (1, [])
    run(datetime(2026, 7, 1, 16, 1, 1, tzinfo=UTC))
    assert told() == ["alert.opened"]
    publisher = live(stream)
    run(datetime(2026, 7, 1, 16, 5, tzinfo=UTC))
    assert told() == ["alert.opened", "alert.cleared"]
    publisher.end("client_unpublish", datetime(2026, 7, 1, 16, 10, tzinfo=UTC))
    run(datetime(2026, 7, 1, 16, 10, 1, tzinfo=UTC))
    assert Alert.objects.filter(cleared_at=None).get().opened_at == datetime(2026, 7, 1, 16, 10, tzinfo=UTC)
    run(datetime(2026, 7, 1, 18, 0, tzinfo=UTC))
    assert not Alert.objects.filter(cleared_at=None).exists()


def test_outside_of_the_hours_it_waits_for_them(publisher: Told) -> None:
    now = timezone.now()
    soon = (now + timedelta(hours=2)).time()
    rule(from_time=soon, until_time=(now + timedelta(hours=4)).time())
    publisher.opened()
    run()
    assert told() == []
    run(after(hours=2, seconds=5))
    assert told() == ["alert.opened"]


BERLIN = {"time_zone": "Europe/Berlin"}


@pytest.mark.parametrize(
    ("fields", "at", "inside"),
    [
        ({}, "2026-03-01T12:00", True),
        ({"from_time": time(8), "until_time": time(18)}, "2026-03-01T07:59", False),
        ({"from_time": time(8), "until_time": time(18)}, "2026-03-01T08:00", True),
        ({"from_time": time(8), "until_time": time(18)}, "2026-03-01T18:00", False),
        ({"from_time": time(22), "until_time": time(6)}, "2026-03-01T23:00", True),
        ({"from_time": time(22), "until_time": time(6)}, "2026-03-01T05:59", True),
        ({"from_time": time(22), "until_time": time(6)}, "2026-03-01T06:00", False),
        # 1 March 2026 is a Sunday: the night from Saturday belongs to Saturday.
        ({"from_time": time(22), "until_time": time(6), "days": [5]}, "2026-03-01T05:00", True),
        ({"from_time": time(22), "until_time": time(6), "days": [5]}, "2026-03-01T23:00", False),
        ({"days": [6]}, "2026-03-01T00:00", True),
        ({"days": [6]}, "2026-03-02T00:00", False),
        # Berlin is an hour ahead of UTC in winter, two in summer; clocks go forward on 29 March, back on 25 October.
        ({"from_time": time(8), "until_time": time(18), **BERLIN}, "2026-03-28T07:00", True),
        ({"from_time": time(8), "until_time": time(18), **BERLIN}, "2026-03-28T06:59", False),
        ({"from_time": time(8), "until_time": time(18), **BERLIN}, "2026-03-29T06:00", True),
        ({"from_time": time(2, 30), "until_time": time(4), **BERLIN}, "2026-03-29T01:30", True),
        ({"from_time": time(1), "until_time": time(2, 15), **BERLIN}, "2026-03-29T01:00", False),
        ({"from_time": time(2), "until_time": time(3), **BERLIN}, "2026-10-25T00:30", True),
        ({"from_time": time(2), "until_time": time(3), **BERLIN}, "2026-10-25T01:30", True),
        ({"from_time": time(2), "until_time": time(3), **BERLIN}, "2026-10-25T02:00", False),
        ({"days": [0], "time_zone": "Pacific/Auckland"}, "2026-03-01T12:00", True),
    ],
)
def test_hours_and_days_by_the_clocks_of_the_zone(fields: dict[str, Any], at: str, inside: bool) -> None:
    found = AlertRule(name="r", **fields).began(datetime.fromisoformat(f"{at}+00:00"))
    assert (found is not None) == inside


def full_disk() -> None:
    now = timezone.now()
    Node.objects.create(name="n1")
    full: Any = issue("disk_free", since=now.timestamp() - 60, title="The disk is full.")
    nodes.seen(name="n1", now=now, issues=[full])


def test_a_node_s_own_issue_opens_and_clears(stream: Stream) -> None:
    watching = rule(name="machines", checks=["disk_free"])
    rule(name="of a stream").streams.add(stream)
    full_disk()
    run()
    run()
    alert = Alert.objects.get()
    assert (alert.rule, alert.subject, alert.title, alert.told) == (watching, "n1", "The disk is full.", 1)
    assert Delivery.objects.get().body["url"] == "http://127.0.0.1:8000/nodes/n1/"
    nodes.seen(name="n1", now=timezone.now())
    run()
    assert told() == ["alert.opened", "alert.cleared"]


def test_a_rule_that_is_switched_off_tells_nobody_more(publisher: Told) -> None:
    watching = rule()
    publisher.opened()
    run()
    AlertRule.objects.update(enabled=False)
    evaluation.rule_disabled(watching, timezone.now())
    AlertRule.objects.update(enabled=True)
    run()
    assert told() == ["alert.opened"]
    assert Alert.objects.get().cleared_why == "The rule was switched off."


@pytest.mark.parametrize("about", ["ended", "not_live"])
def test_an_end_that_is_acknowledged_is_not_repeated(publisher: Told, stream: Stream, about: str) -> None:
    rule(about=about, repeat_min=1).streams.add(stream)
    publisher.end()
    run()
    assert told() == ["alert.opened"]
    publisher.session.refresh_from_db()
    streams_actions.acknowledge_end(publisher.session, Actor("omar"), "on it")
    run(after(minutes=5))
    assert told() == ["alert.opened"]


@pytest.mark.parametrize(("first", "then", "more"), [("warning", "bad", ["alert.repeated"]), ("bad", "warning", [])])
def test_an_acknowledgement_holds_until_it_gets_worse(publisher: Told, first: str, then: str, more: list[str]) -> None:
    rule(repeat_min=1)
    publisher.opened(level=first)
    run()
    acknowledge(publisher, first)
    run(after(minutes=2))
    assert told() == ["alert.opened"]
    publisher.opened(level=then)
    run(after(minutes=4))
    assert told() == ["alert.opened", *more]
    assert evaluation.is_acknowledged(Alert.objects.get()) == (not more)


def leave(stream: Stream) -> None:
    for watching in AlertRule.objects.all():
        watching.streams.set([Stream.objects.create(application=stream.application, name="cam-9", enabled=False)])


@pytest.mark.parametrize(
    "happens",
    [
        lambda _: Stream.objects.update(enabled=False),
        lambda _: Application.objects.update(enabled=False),
        Stream.delete,
        leave,
    ],
    ids=["disabled", "of a disabled application", "deleted", "left by the rule"],
)
@pytest.mark.parametrize("about", ["ended", "not_live"])
def test_a_stream_that_is_not_to_be_live_any_more_is_not_repeated(
    publisher: Told, stream: Stream, about: str, happens: Callable[[Stream], object]
) -> None:
    watching = rule(about=about, repeat_min=1)
    watching.streams.add(stream)
    publisher.end()
    run()
    happens(stream)
    run(after(minutes=5))
    run(after(minutes=10))
    assert Alert.objects.get(subject="live/cam-1").cleared_at is not None
    assert told() == ["alert.opened", "alert.cleared"]


def end_unsaid(publisher: Told) -> None:
    Session.objects.filter(pk=publisher.session.pk).update(ended_at=timezone.now())


@pytest.mark.parametrize(
    ("happens", "why"),
    [
        (lambda publisher: publisher.end("client_unpublish"), "The stream ended."),
        (end_unsaid, "The stream ended."),
        (lambda _: AlertRule.objects.update(checks=["gop_long"]), "The rule was changed."),
        (lambda _: AlertRule.objects.update(level="bad"), "The rule was changed."),
        (lambda _: AlertRule.objects.update(about="ended"), "The rule was changed."),
    ],
)
def test_what_ends_an_alert(publisher: Told, happens: Callable[[Told], object], why: str) -> None:
    rule(repeat_min=1)
    publisher.opened(level="warning")
    run()
    happens(publisher)
    run(after(minutes=5))
    assert told() == ["alert.opened", "alert.cleared"]
    assert Alert.objects.get().cleared_why == why


def test_a_rule_that_is_limited_to_streams_lets_go_of_nodes(stream: Stream) -> None:
    watching = rule(repeat_min=1)
    full_disk()
    run()
    run(after(seconds=5))
    assert told() == ["alert.opened"]
    watching.streams.add(stream)
    run(after(minutes=5))
    assert told() == ["alert.opened", "alert.cleared"]


@pytest.mark.both_forms
def test_a_rule_and_a_webhook_whose_only_stream_is_deleted_are_about_none(stream: Stream, webhook: Webhook) -> None:
    watching = rule()
    for scope in (watching, webhook):
        scope.streams.add(stream)
        scope.refresh_from_db()
        assert scope.covers("live", stream.pk)
        assert not scope.covers("live", stream.pk + 1)
    stream.delete()
    for scope in (AlertRule.objects.get(), Webhook.objects.get()):
        assert not scope.covers("live", 7)
    webhook.refresh_from_db()
    webhook.streams.clear()
    assert webhook.covers("live", 7), "somebody chose no stream: all"
