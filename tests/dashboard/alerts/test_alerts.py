"""Alerts: told once when something opens and once when it clears, to whom and when the rule says; when they end, or are
quiet, by what people do."""

from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest
from django.db.models.deletion import Collector
from django.forms import model_to_dict
from django.utils import timezone

from dashboard import tasks
from dashboard.alerts import actions as alerts_actions
from dashboard.alerts import evaluation, kinds
from dashboard.alerts.actions import RuleForm
from dashboard.models import Alert, AlertRule
from dashboard.streams import actions as streams_actions
from dashboard.streams import silences
from dashboard.streams.silences import Silences
from ingest.delivery.kinds import kind_of
from ingest.models import Application, Delivery, HealthOverride, Node, Service, Session, StatusEvent, Stream, Webhook
from ingest.services import nodes, outbox
from ingest.services.audit import Actor
from tests.dashboard.alerts.conftest import OutboxWriter, live
from tests.dashboard.conftest import is_silenced
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
    """What beat has done, and what was made before is delivered."""
    now = now or timezone.now()
    Delivery.objects.filter(state="waiting").update(state="done", ended_at=now)
    tasks.handle_events(now)
    evaluation.check_rules(now)
    evaluation.notify(now)


def told() -> list[str]:
    return list(Delivery.objects.order_by("number").values_list("kind", flat=True))


def after(**span: float) -> datetime:
    return timezone.now() + timedelta(**span)


def acknowledge(publisher: OutboxWriter, level: str) -> None:
    about = {"code": "starving", "at": timezone.now(), "detail": {"level": level}}
    StatusEvent.objects.create(session=publisher.session, sequence=10**6, kind=streams_actions.ACKNOWLEDGED, **about)


@pytest.mark.both_forms
def test_alert_of_next_publisher_survives_late_end_of_previous_session(publisher: OutboxWriter, stream: Stream) -> None:
    rule()
    publisher.opened()
    run()
    AlertRule.objects.update(unjudged_since=None)
    following = live(stream)
    following.publish()
    following.opened()
    publisher.end()  # As of a node that was lost: it is written late.
    run()
    assert [alert.session_id for alert in Alert.objects.filter(cleared_at=None)] == [following.session.pk]
    following.end()
    run()
    assert not Alert.objects.filter(cleared_at=None).exists()


@pytest.mark.both_forms
def test_issue_opening_and_clearing_are_each_notified_once_per_recipient(
    publisher: OutboxWriter, webhook: Webhook
) -> None:
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
    assert body["alert"]["cleared_why"] == "Back within limits."


def test_issue_that_clears_within_the_delay_is_not_notified(publisher: OutboxWriter) -> None:
    rule(delay_s=30)
    publisher.opened()
    publisher.opened("gop_long")
    run()
    assert told() == []
    publisher.cleared("gop_long")
    run(after(seconds=31))
    assert (told(), Alert.objects.get().check_code) == (["alert.opened"], "starving")


def test_alert_notified_while_clearing_also_gets_its_cleared_notification(
    publisher: OutboxWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
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
def test_lasting_bad_issue_in_a_burst_of_events_is_still_alerted(publisher: OutboxWriter, webhook: Webhook) -> None:
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


def test_open_alert_is_repeated_at_the_rules_interval(publisher: OutboxWriter) -> None:
    rule(repeat_min=10)
    publisher.opened()
    for minutes in (0, 5, 11, 15, 22):
        run(after(minutes=minutes))
    assert told() == ["alert.opened", "alert.repeated", "alert.repeated"]


def silence_reason(check: str) -> str:
    return evaluation.silence_reason(Alert.objects.get(check_code=check), Silences.load(timezone.now()))


def test_silenced_stream_sends_neither_opened_nor_cleared_alerts(publisher: OutboxWriter, stream: Stream) -> None:
    rule(repeat_min=10)
    silences.silence(stream, OPERATOR, check="starving", note="Encoder swap")
    publisher.opened()
    publisher.opened("gop_long")
    run()
    assert [row.body["alert"]["check"] for row in Delivery.objects.all()] == ["gop_long"]
    assert silence_reason("starving") == "Silenced until somebody lifts it: Encoder swap"
    silences.lift_of(stream, OPERATOR)
    run()
    assert told() == ["alert.opened"] * 2
    silences.silence(stream, OPERATOR)
    publisher.cleared()
    run()
    silences.lift_of(stream, OPERATOR)
    run()
    assert told() == ["alert.opened"] * 2


@pytest.mark.both_forms
def test_issue_still_open_when_a_silence_ends_is_notified_then(publisher: OutboxWriter, stream: Stream) -> None:
    rule()
    publisher.opened()
    run()
    silences.silence(stream, OPERATOR, until=after(minutes=30))
    publisher.opened("gop_long")
    for minutes in (1, 29):
        run(after(minutes=minutes))
    assert told() == ["alert.opened"]
    for minutes in (31, 32, 40):
        run(after(minutes=minutes))
    assert told() == ["alert.opened", "alert.repeated", "alert.opened"]


@pytest.mark.both_forms
def test_a_maintenance_window_silences_an_application_or_everything(publisher: OutboxWriter, stream: Stream) -> None:
    rule()
    other = Application.objects.create(name="elsewhere")
    silences.silence(other, OPERATOR)
    assert not is_silenced(stream.pk, "starving")
    window = silences.silence(stream.application, OPERATOR, until=after(hours=2))
    assert is_silenced(stream.pk, "starving")
    publisher.opened()
    run()
    assert told() == []
    assert silences.lift(window, OPERATOR)
    assert not silences.lift(window, OPERATOR)
    everything = silences.silence(None, OPERATOR, check="starving", until=after(hours=2))
    assert not is_silenced(stream.pk, "gop_long")
    run()
    assert told() == []
    assert silences.lift(everything, OPERATOR)
    run()
    assert told() == ["alert.opened"]


def test_a_pager_s_incident_is_resolved_though_it_is_silenced(publisher: OutboxWriter, stream: Stream) -> None:
    services = {kind: Service(name=kind, kind=kind, sealed="") for kind in ("pagerduty", "slack")}
    made = rule()
    for each in services.values():
        each.save()
        made.services.add(each)
    publisher.opened()
    run()
    silences.silence(stream, OPERATOR)
    publisher.cleared()
    run()
    cleared = Delivery.objects.filter(kind="alert.cleared")
    assert [row.receiver for row in cleared] == ["pagerduty"]


def test_an_acknowledged_issue_is_not_repeated_but_its_end_is_told(publisher: OutboxWriter) -> None:
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
def test_dropped_stream_opens_an_alert_that_clears_when_it_is_back(
    publisher: OutboxWriter, stream: Stream, reason: str
) -> None:
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


def test_stream_that_reconnects_within_the_delay_is_not_notified(publisher: OutboxWriter, stream: Stream) -> None:
    rule(kinds=["ended"], delay_s=20)
    publisher.end()
    run()
    live(stream).publish()
    run(after(seconds=30))
    assert told() == []


@pytest.mark.parametrize("reason", ["client_unpublish", "kicked", "key_revoked", "replaced", "node_shutdown"])
def test_an_end_that_was_meant_is_no_alert(publisher: OutboxWriter, reason: str) -> None:
    rule(kinds=["ended"])
    publisher.end(reason)
    run()
    assert not Alert.objects.exists()


@pytest.mark.both_forms
def test_not_live_rule_alerts_within_its_hours_until_the_stream_is_live(stream: Stream) -> None:
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


@pytest.mark.parametrize("kind", ["ended", "not_live"])
def test_an_end_that_is_acknowledged_is_not_repeated(publisher: OutboxWriter, stream: Stream, kind: str) -> None:
    rule(kinds=[kind], repeat_min=1).streams.add(stream)
    publisher.end()
    run()
    assert told() == ["alert.opened"]
    publisher.session.refresh_from_db()
    streams_actions.acknowledge_end(publisher.session, Actor("omar"), "on it")
    run(after(minutes=5))
    assert told() == ["alert.opened"]


@pytest.mark.parametrize(("first", "then", "more"), [("warning", "bad", ["alert.repeated"]), ("bad", "warning", [])])
def test_an_acknowledgement_holds_until_it_gets_worse(
    publisher: OutboxWriter, first: str, then: str, more: list[str]
) -> None:
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


@pytest.mark.parametrize(("reason", "outcome"), [("tcp_reset", "dropped"), ("kicked", "ended")])
def test_webhook_distinguishes_fixed_issue_from_ended_session(
    publisher: OutboxWriter, webhook: Webhook, reason: str, outcome: str
) -> None:
    rule().webhooks.add(webhook)
    publisher.opened()
    publisher.opened("gop_long")
    run()
    publisher.cleared("gop_long")
    dies(publisher, reason)
    run()
    cleared = {
        row.body["alert"]["check"]: row.body["alert"]
        for row in Delivery.objects.filter(kind="alert.cleared", channel="webhook")
    }
    assert (cleared["gop_long"]["outcome"], cleared["gop_long"]["end_reason"]) == ("fixed", "")
    assert (cleared["starving"]["outcome"], cleared["starving"]["end_reason"]) == (outcome, reason)
    events = Delivery.objects.filter(kind="health.cleared").order_by("number")
    assert [row.body["health"].get("by") for row in events] == [None, "session.ended"]


@pytest.mark.parametrize(
    ("happens", "outcome", "why"),
    [
        (lambda node: nodes.seen(name=node, now=timezone.now()), "fixed", "Back within limits."),
        (lambda _: Node.objects.update(state="down"), "dropped", "The node is down. The issue was not fixed: The disk"),
        (
            lambda _: Node.objects.update(state="down", stopped_at=timezone.now()),
            "ended",
            "The node was stopped. The issue was not fixed: The disk",
        ),
    ],
)
def test_node_alert_outcome_is_fixed_only_when_the_node_reports_again(
    happens: Callable[[str], object], outcome: str, why: str
) -> None:
    rule(checks=["disk_free"])
    full_disk()
    run()
    happens("n1")
    run()
    alert = Alert.objects.get()
    assert alert.outcome == outcome
    assert alert.cleared_why.startswith(why)


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
def test_alert_clears_when_its_stream_is_disabled_deleted_or_left_by_the_rule(
    publisher: OutboxWriter, stream: Stream, kind: str, happens: Callable[[Stream], object]
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


def end_unsaid(publisher: OutboxWriter) -> None:
    Session.objects.filter(pk=publisher.session.pk).update(ended_at=timezone.now(), end_reason="node_lost")


def dies(publisher: OutboxWriter, reason: str) -> None:
    """As its node writes it: what was open clears with the session, before its end."""
    publisher.cleared(by="session.ended")
    publisher.end(reason)


NOT_FIXED = "The issue was not fixed: Nothing has arrived for 14 s (5 s at most)."


@pytest.mark.parametrize(
    ("happens", "outcome", "why"),
    [
        (lambda publisher: publisher.cleared(), "fixed", "Back within limits."),
        (lambda publisher: dies(publisher, "tcp_reset"), "dropped", f"Stream dropped: connection reset. {NOT_FIXED}"),
        (lambda publisher: dies(publisher, "lease_lost"), "dropped", f"{kinds.ended_words('lease_lost')} {NOT_FIXED}"),
        (lambda publisher: publisher.end("node_lost"), "dropped", f"Stream dropped: server went down. {NOT_FIXED}"),
        (end_unsaid, "dropped", f"Stream dropped: server went down. {NOT_FIXED}"),
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
def test_cleared_alert_records_outcome_and_reason(
    publisher: OutboxWriter, happens: Callable[[OutboxWriter], object], outcome: str, why: str
) -> None:
    rule(repeat_min=1)
    publisher.opened(level="warning")
    run()
    happens(publisher)
    run(after(minutes=5))
    assert told() == ["alert.opened", "alert.cleared"]
    assert Alert.objects.values_list("outcome", "cleared_why").get() == (outcome, why)


@pytest.mark.both_forms
def test_check_disabled_for_the_stream_withdraws_its_alert_as_not_fixed(
    publisher: OutboxWriter, stream: Stream
) -> None:
    rule()
    publisher.opened()
    run()
    HealthOverride.objects.create(stream=stream, check_code="starving", enabled=False)
    publisher.cleared()
    run()
    assert Alert.objects.values_list("outcome", "cleared_why").get() == (
        "withdrawn",
        f"The check was switched off for the stream. {NOT_FIXED}",
    )


@pytest.mark.both_forms
@pytest.mark.parametrize("ends", ["off", "deleted"])
def test_pager_incident_is_resolved_when_its_rule_is_disabled_or_deleted(publisher: OutboxWriter, ends: str) -> None:
    made = rule()
    for kind in ("pagerduty", "slack"):
        made.services.add(Service.objects.create(name=kind, kind=kind, sealed=""))
    publisher.opened()
    run()
    run()
    form = RuleForm({**model_to_dict(made), "enabled": "", "services": list(Service.objects.all())}, instance=made)
    if ends == "deleted":
        alerts_actions.delete(made, Actor("test"))
    else:
        assert form.is_valid(), form.errors
        alerts_actions.save(form, Actor("test"))
    cleared = Delivery.objects.filter(kind="alert.cleared")
    assert [row.receiver for row in cleared] == ["pagerduty"]
    assert cleared.get().body["alert"]["outcome"] == "withdrawn"
    assert kind_of(cleared.get()).superseded(cleared.get()) == ""  # type: ignore[misc]
