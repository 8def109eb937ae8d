"""Rules: what they alert on, of which streams and when; a rule that is saved while something is so already."""

from datetime import datetime, time, timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

from dashboard.alerts import evaluation
from dashboard.models import Alert, AlertRule, Mute
from ingest.models import Delivery, Service, Stream, Webhook
from tests.dashboard.alerts.conftest import OutboxWriter, live
from tests.dashboard.alerts.test_alerts import after, dies, full_disk, rule, run, told
from tests.dashboard.conftest import make_stream

pytestmark = pytest.mark.django_db


def test_rules_choose_by_check_level_and_stream(publisher: OutboxWriter, stream: Stream) -> None:
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


def test_issue_outside_the_rules_hours_is_notified_when_they_begin(publisher: OutboxWriter) -> None:
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
def test_rule_hours_and_days_follow_its_time_zone(fields: dict[str, Any], at: str, inside: bool) -> None:
    found = AlertRule(name="r", **fields).began(datetime.fromisoformat(f"{at}+00:00"))
    assert (found is not None) == inside


def test_disabled_rule_clears_its_alerts_without_notification(publisher: OutboxWriter) -> None:
    watching = rule()
    publisher.opened()
    run()
    AlertRule.objects.update(enabled=False)
    evaluation.rule_disabled(watching, timezone.now())
    AlertRule.objects.update(enabled=True, unjudged_since=None)
    run()
    assert told() == ["alert.opened"]
    assert Alert.objects.get().cleared_why == "The rule was switched off."


def test_a_rule_alerts_on_several_kinds(publisher: OutboxWriter, stream: Stream) -> None:
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


def test_a_kind_that_a_rule_does_not_alert_on_any_more_is_withdrawn(publisher: OutboxWriter, stream: Stream) -> None:
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
    publisher: OutboxWriter, reason: str, ago_min: int, is_told: bool
) -> None:
    publisher.end(reason, at=after(minutes=-ago_min))
    run()
    rule(kinds=["ended"], delay_s=30)
    run()
    run()
    assert told() == ["alert.opened"] * is_told


def test_new_rule_ignores_drops_of_streams_that_came_back(publisher: OutboxWriter, stream: Stream) -> None:
    publisher.end(at=after(minutes=-5))
    live(stream).publish()
    other = make_stream("cam-7")
    live(other).end(at=after(minutes=-9))
    live(other).end("client_unpublish", at=after(minutes=-5))
    run()
    rule(kinds=["ended"])
    run()
    assert told() == []


def test_rule_limited_to_streams_clears_its_node_alerts(stream: Stream) -> None:
    watching = rule(repeat_min=1)
    full_disk()
    run()
    run(after(seconds=5))
    assert told() == ["alert.opened"]
    watching.streams.add(stream)
    run(after(minutes=5))
    assert told() == ["alert.opened", "alert.cleared"]


@pytest.mark.both_forms
def test_rule_and_webhook_whose_only_stream_is_deleted_cover_no_stream(stream: Stream, webhook: Webhook) -> None:
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


@pytest.mark.stores
@pytest.mark.django_db(transaction=True)
def test_migration_of_rule_kinds_keeps_them_in_both_directions(stream: Stream) -> None:
    for kind in ("health", "ended", "not_live"):
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


@pytest.mark.both_forms
@pytest.mark.slow("migrations go back and forth")
@pytest.mark.django_db(transaction=True)
def test_reverse_migration_removes_rows_unknown_to_the_former_version(stream: Stream, webhook: Webhook) -> None:
    for of in ({"stream": stream}, {"application": stream.application}, {}):
        Mute.objects.create(**of)
    service = Service.objects.create(name="#ops", kind="slack", sealed="", shown="")
    Delivery.objects.create(once="1", number=1, kind="alert.opened", series="1", channel="service", service=service)
    Delivery.objects.create(once="2", number=2, kind="alert.opened", series="2", webhook=webhook)
    executor = MigrationExecutor(connection)
    try:
        executor.migrate([("dashboard", "0003_alert_kinds"), ("ingest", "0003_expected")])
    finally:
        executor = MigrationExecutor(connection)
        executor.migrate(executor.loader.graph.leaf_nodes())
    assert [mute.stream for mute in Mute.objects.all()] == [stream]
    assert [row.channel for row in Delivery.objects.all()] == ["webhook"]


@pytest.mark.both_forms
def test_drop_alert_clears_though_the_publish_event_was_missed(publisher: OutboxWriter, stream: Stream) -> None:
    rule(kinds=["ended"])
    publisher.end()
    run()
    assert Alert.objects.filter(cleared_at=None).exists()
    live(stream)
    run(after(seconds=5))
    assert Alert.objects.values_list("outcome", "cleared_why").get() == ("fixed", "The stream is back.")
