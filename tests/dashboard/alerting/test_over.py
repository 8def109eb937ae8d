"""When alerts end, or are quiet, by what people do: acknowledge, disable, delete, change the rule."""

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from dashboard.alerts import evaluation
from dashboard.models import Alert, AlertRule
from dashboard.streams import actions as streams_actions
from ingest.models import Application, Node, StatusEvent, Stream, Webhook
from ingest.services import nodes
from ingest.services.audit import Actor
from tests.dashboard.alerting.conftest import Told, issue
from tests.dashboard.alerting.test_alarms import after, rule, run, told

pytestmark = pytest.mark.django_db


def acknowledge(publisher: Told, level: str) -> None:
    StatusEvent.objects.create(
        session=publisher.session,
        sequence=10**6,
        kind=streams_actions.ACKNOWLEDGED,
        code="starving",
        at=timezone.now(),
        detail={"level": level},
    )


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


def test_an_acknowledged_warning_that_gets_worse_is_not_acknowledged(publisher: Told) -> None:
    rule(repeat_min=1)
    publisher.opened(level="warning")
    run()
    acknowledge(publisher, "warning")
    run(after(minutes=2))
    assert told() == ["alert.opened"]
    publisher.opened(level="bad")
    run(after(minutes=4))
    assert told() == ["alert.opened", "alert.repeated"]


def test_what_was_acknowledged_at_its_worst_stays_so(publisher: Told) -> None:
    rule(repeat_min=1)
    publisher.opened(level="bad")
    run()
    acknowledge(publisher, "bad")
    publisher.opened(level="warning")
    run(after(minutes=2))
    assert told() == ["alert.opened"]
    assert evaluation.is_acknowledged(Alert.objects.get())


def disable(stream: Stream) -> None:
    Stream.objects.update(enabled=False)


def disable_application(stream: Stream) -> None:
    Application.objects.update(enabled=False)


def delete(stream: Stream) -> None:
    stream.delete()


def leave(stream: Stream) -> None:
    for watching in AlertRule.objects.all():
        watching.streams.set([Stream.objects.create(application=stream.application, name="cam-9", enabled=False)])


@pytest.mark.parametrize("happens", [disable, disable_application, delete, leave])
@pytest.mark.parametrize("about", ["ended", "not_live"])
def test_a_stream_that_is_not_to_be_live_any_more_is_not_repeated(
    publisher: Told, stream: Stream, about: str, happens: Callable[[Stream], None]
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


@pytest.mark.parametrize("change", [{"checks": ["gop_long"]}, {"level": "bad"}, {"about": "ended"}])
def test_what_a_changed_rule_does_not_tell_of_any_more_clears(publisher: Told, change: dict[str, Any]) -> None:
    rule(repeat_min=1)
    publisher.opened(level="warning")
    run()
    AlertRule.objects.update(**change)
    run(after(minutes=5))
    assert told() == ["alert.opened", "alert.cleared"]
    assert Alert.objects.get().cleared_why == "The rule was changed."


def test_a_rule_that_is_limited_to_streams_lets_go_of_nodes(stream: Stream) -> None:
    watching = rule(repeat_min=1)
    now = timezone.now()
    Node.objects.create(name="n1")
    nodes.seen(name="n1", now=now, issues=[issue("disk_free", "bad") | {"since": now.timestamp()}])  # type: ignore[list-item]
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
