"""Alerts: told once when something opens and once when it clears, to whom and when the rule says; when they end, or are
quiet, by what people do."""

from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.models.deletion import Collector
from django.utils import timezone

from dashboard import tasks
from dashboard.alerts import evaluation, kinds
from dashboard.models import Alert, AlertRule
from dashboard.streams import actions as streams_actions
from ingest.models import Application, Delivery, Node, Session, StatusEvent, Stream, Webhook
from ingest.services import nodes, outbox
from ingest.services.audit import Actor
from tests.dashboard.alerts.conftest import Told, live
from tests.dashboard.conftest import make_stream
from tests.snapshots import issue

pytestmark = pytest.mark.django_db

OPERATOR = Actor("omar")


def rule(**fields: Any) -> AlertRule:
    values: dict[str, Any] = {
        "name": "Night shift",
        "kinds": ["health"],
        "level": "warning",
        "delay_s": 0,
        "emails": "a@example.org",
    }
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
    assert body["alert"]["expected"] == "5 s at most"
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
    assert (cleared.rule.name, cleared.cleared_why) == (
        "bad only",
        "It is at level warning now: Nothing has arrived for 14 s (5 s at most).",
    )


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
    rule(kinds=["ended"], delay_s=20)
    publisher.end(reason)
    run()
    assert told() == []
    run(after(seconds=21))
    assert told() == ["alert.opened"]
    dropped = Alert.objects.get()
    assert dropped.title == f"{kinds.ended_words(reason)} It broke."
    assert dropped.title.startswith("Stream dropped: ")
    assert "_" not in f"{dropped.title} {dropped.actual}"
    assert dropped.end_reason == reason
    live(stream).publish()
    run(after(seconds=30))
    assert told() == ["alert.opened", "alert.cleared"]
    assert Alert.objects.get().cleared_why == "The stream is back."


def test_a_stream_that_is_back_in_time_is_told_nobody(publisher: Told, stream: Stream) -> None:
    rule(kinds=["ended"], delay_s=20)
    publisher.end()
    run()
    live(stream).publish()
    run(after(seconds=30))
    assert told() == []


@pytest.mark.parametrize("reason", ["client_unpublish", "kicked", "key_revoked", "replaced", "node_shutdown"])
def test_an_end_that_was_meant_is_no_alert(publisher: Told, reason: str) -> None:
    rule(kinds=["ended"])
    publisher.end(reason)
    run()
    assert not Alert.objects.exists()


@pytest.mark.both_forms
def test_a_stream_that_should_be_live(stream: Stream) -> None:
    evening = {"from_time": time(18), "until_time": time(20), "time_zone": "Europe/Berlin"}
    rule(kinds=["not_live"], delay_s=60, **evening).streams.add(stream)
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
        ({"from_time": time(1), "until_time": time(2, 15), **BERLIN}, "2026-03-29T01:14", True),
        ({"from_time": time(1), "until_time": time(2, 15), **BERLIN}, "2026-03-29T01:15", False),
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
    AlertRule.objects.update(enabled=True, unjudged_since=None)
    run()
    assert told() == ["alert.opened"]
    assert Alert.objects.get().cleared_why == "The rule was switched off."


@pytest.mark.parametrize("kind", ["ended", "not_live"])
def test_an_end_that_is_acknowledged_is_not_repeated(publisher: Told, stream: Stream, kind: str) -> None:
    rule(kinds=[kind], repeat_min=1).streams.add(stream)
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


def test_a_rule_alerts_on_several_kinds(publisher: Told, stream: Stream) -> None:
    """As what would wake somebody, which a new rule has."""
    AlertRule.objects.create(name="Wake", delay_s=0, emails="a@example.org")
    publisher.opened()
    run()
    dies(publisher, "tcp_reset")
    run()
    assert sorted(Alert.objects.values_list("kind", "check_code", "outcome")) == [
        ("ended", "ended", ""),
        ("health", "starving", "dropped"),
    ]
    assert told() == ["alert.opened", "alert.opened", "alert.cleared"]
    live(stream).publish()
    run()
    assert Alert.objects.get(kind="ended").outcome == "fixed"


def test_a_kind_that_a_rule_does_not_alert_on_any_more_is_withdrawn(publisher: Told, stream: Stream) -> None:
    rule(kinds=["health", "ended"])
    publisher.end()
    run()
    AlertRule.objects.update(kinds=["health"])
    run()
    alert = Alert.objects.get()
    assert (alert.outcome, alert.cleared_why) == ("withdrawn", "The rule was changed. The stream was still off air.")


@pytest.mark.both_forms
def test_a_new_rule_is_held_against_issues_that_are_open(stream: Stream) -> None:
    publisher = live(stream)
    publisher.opened(at=after(minutes=-5))
    publisher.opened("gop_long", "warning", at=after(minutes=-4))
    publisher.opened("no_audio", at=after(minutes=-3))
    publisher.cleared("no_audio")
    over = live(make_stream("cam-7"))
    over.opened()
    dies(over, "client_unpublish")
    run()
    rule(name="bad", level="bad", delay_s=30)
    rule(name="late", level="bad", delay_s=3600)
    rule(name="others").streams.add(make_stream("cam-8"))
    run()
    run()
    alert = Alert.objects.get(rule__name="bad")
    assert (alert.check_code, alert.session_id, alert.told) == ("starving", publisher.session.pk, 1)
    assert abs(alert.opened_at - after(minutes=-5)) < timedelta(seconds=5)
    assert Alert.objects.get(rule__name="late").told == 0
    assert not Alert.objects.filter(rule__name="others").exists()
    publisher.cleared()
    run()
    run(after(seconds=20))
    assert told() == ["alert.opened", "alert.cleared"]
    assert not AlertRule.objects.exclude(unjudged_since=None).exists()


@pytest.mark.both_forms
@pytest.mark.parametrize(
    ("reason", "ago_min", "is_told"),
    [("tcp_reset", 5, True), ("client_unpublish", 5, False), ("tcp_reset", 120, False)],
)
def test_a_new_rule_is_held_against_streams_that_dropped(
    publisher: Told, reason: str, ago_min: int, is_told: bool
) -> None:
    publisher.end(reason, at=after(minutes=-ago_min))
    run()
    rule(kinds=["ended"], delay_s=30)
    run()
    run()
    assert told() == ["alert.opened"] * is_told


def test_a_new_rule_lets_a_stream_be_that_came_back(publisher: Told, stream: Stream) -> None:
    publisher.end(at=after(minutes=-5))
    live(stream).publish()
    other = make_stream("cam-7")
    live(other).end(at=after(minutes=-9))
    live(other).end("client_unpublish", at=after(minutes=-5))
    run()
    rule(kinds=["ended"])
    run()
    assert told() == []


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
@pytest.mark.parametrize("kind", ["ended", "not_live"])
def test_a_stream_that_is_not_to_be_live_any_more_is_not_repeated(
    publisher: Told, stream: Stream, kind: str, happens: Callable[[Stream], object]
) -> None:
    watching = rule(kinds=[kind], repeat_min=1)
    watching.streams.add(stream)
    publisher.end()
    run()
    happens(stream)
    run(after(minutes=5))
    run(after(minutes=10))
    assert Alert.objects.get(subject="live/cam-1").cleared_at is not None
    assert told() == ["alert.opened", "alert.cleared"]


def end_unsaid(publisher: Told) -> None:
    Session.objects.filter(pk=publisher.session.pk).update(ended_at=timezone.now(), end_reason="node_lost")


def dies(publisher: Told, reason: str) -> None:
    """As its node writes it: what was open clears with the session, before its end."""
    publisher.cleared(by="session.ended")
    publisher.end(reason)


NOT_FIXED = "The issue was not fixed: Nothing has arrived for 14 s (5 s at most)."


@pytest.mark.parametrize(
    ("happens", "outcome", "why"),
    [
        (lambda publisher: publisher.cleared(), "fixed", "The issue is over."),
        (lambda publisher: dies(publisher, "tcp_reset"), "dropped", f"Stream dropped: connection reset. {NOT_FIXED}"),
        (lambda publisher: dies(publisher, "lease_lost"), "dropped", f"{kinds.ended_words('lease_lost')} {NOT_FIXED}"),
        (lambda publisher: publisher.end("node_lost"), "dropped", f"Stream dropped: server lost. {NOT_FIXED}"),
        (end_unsaid, "dropped", f"Stream dropped: server lost. {NOT_FIXED}"),
        (lambda publisher: dies(publisher, "client_unpublish"), "ended", f"Stream ended: encoder stopped. {NOT_FIXED}"),
        (
            lambda publisher: dies(publisher, "key_revoked"),
            "ended",
            f"Stream ended: key revoked or disabled. {NOT_FIXED}",
        ),
        (
            lambda publisher: dies(publisher, "replaced"),
            "ended",
            f"Stream ended: replaced by another encoder. {NOT_FIXED}",
        ),
        (lambda _: AlertRule.objects.update(checks=["gop_long"]), "withdrawn", f"The rule was changed. {NOT_FIXED}"),
        (lambda _: AlertRule.objects.update(level="bad"), "withdrawn", f"The rule was changed. {NOT_FIXED}"),
        (lambda _: AlertRule.objects.update(kinds=["ended"]), "withdrawn", f"The rule was changed. {NOT_FIXED}"),
    ],
)
def test_what_ends_an_alert_and_what_became_of_its_issue(
    publisher: Told, happens: Callable[[Told], object], outcome: str, why: str
) -> None:
    rule(repeat_min=1)
    publisher.opened(level="warning")
    run()
    happens(publisher)
    run(after(minutes=5))
    assert told() == ["alert.opened", "alert.cleared"]
    assert Alert.objects.values_list("outcome", "cleared_why").get() == (outcome, why)


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


@pytest.mark.both_forms
@pytest.mark.django_db(transaction=True)
def test_former_rules_and_alerts_have_their_kinds_and_keep_them_on_the_way_back(stream: Stream) -> None:
    for kind in kinds.KINDS:
        made = rule(name=kind, kinds=[kind])
        about = {"subject": "live/cam-1", "check_code": "starving" if kind == "health" else kind, "level": "bad"}
        Alert.objects.create(rule=made, kind=kind, opened_at=timezone.now(), due_at=timezone.now(), **about)
    rule(name="two", kinds=["health", "ended"])
    executor = MigrationExecutor(connection)
    try:
        executor.migrate([("dashboard", "0002_schedule")])
        rules = executor.loader.project_state([("dashboard", "0002_schedule")]).apps.get_model("dashboard", "AlertRule")
        abouts = dict(rules.objects.values_list("name", "about"))
        assert abouts == {"health": "health", "ended": "ended", "not_live": "not_live", "two": "health"}
    finally:
        executor = MigrationExecutor(connection)
        executor.migrate(executor.loader.graph.leaf_nodes())
    assert {row.name: row.kinds for row in AlertRule.objects.all()} == {name: [about] for name, about in abouts.items()}
    assert not AlertRule.objects.exclude(unjudged_since=None).exists()
    assert all(alert.kind == alert.rule.name for alert in Alert.objects.select_related("rule"))
