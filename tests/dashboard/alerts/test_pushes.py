"""Alerts on pushes: open while a target should be live and is not, and clear by what becomes of it."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from dashboard.alerts import kinds
from dashboard.models import Alert
from ingest.delivery.kinds import kind_of
from ingest.models import Delivery, PushTarget, Session, Stream
from ingest.services import push_targets, pushes
from ingest.services.audit import Actor
from ingest.services.pushes import PushRow
from tests.dashboard.alerts.conftest import OutboxWriter
from tests.dashboard.alerts.test_alerts import after, rule, run, told

pytestmark = pytest.mark.django_db

ACTOR = Actor("test")


@pytest.fixture
def target(stream: Stream) -> PushTarget:
    made = PushTarget(stream=stream)
    push_targets.save(ACTOR, made, {"label": "YouTube", "url": "rtmp://a.example.org/live2", "key": "abcd-1"})
    return made


def tells(
    target: PushTarget, session: Session, state: str, why: dict[str, str] | None = None, at: datetime | None = None
) -> None:
    """As the node's history writes it."""
    fields = {"failure": "", "code": "", "description": ""} | (why or {})
    pushes.set_state(PushRow(target.pk, session.pk, at or timezone.now(), state, **fields))


REFUSED = {"failure": "refused", "code": "NetStream.Publish.BadName", "description": "Stream name is in use."}


def alert() -> Alert:
    return Alert.objects.get()


@pytest.mark.both_forms
def test_refused_push_is_alerted_at_once_with_answer_and_advice(publisher: OutboxWriter, target: PushTarget) -> None:
    rule(kinds=["push_fails"])
    run()
    tells(target, publisher.session, "stopped", REFUSED)
    run()
    assert told() == ["alert.opened"]
    found = alert()
    assert (found.kind, found.subject, found.session_id) == ("push_fails", "live/cam-1", publisher.session.pk)
    assert found.title == "Not pushed to YouTube: the key is in use already, or wrong."
    assert found.actual == "Stream name is in use."
    assert found.advice.startswith("Stop the other encoder that uses this key")
    mail = kind_of(Delivery.objects.get()).mail
    assert mail is not None
    text = mail(Delivery.objects.get()).text
    assert "The target said" in text
    assert "Stream name is in use." in text
    run()
    assert told() == ["alert.opened"]


@pytest.mark.both_forms
def test_retrying_push_is_alerted_after_a_delay_and_clears_when_live(
    publisher: OutboxWriter, target: PushTarget
) -> None:
    rule(kinds=["push_fails"])
    now = timezone.now()
    tells(target, publisher.session, "connecting", at=now - timedelta(seconds=10))
    tells(target, publisher.session, "retrying", {"failure": "connect"}, now - timedelta(seconds=8))
    run(now)
    assert not Alert.objects.exists()
    tells(target, publisher.session, "connecting", at=now)
    run(now + timedelta(seconds=6))
    assert alert().title == "Not pushed to YouTube: nobody answers there."
    assert abs(alert().opened_at - (now - timedelta(seconds=10))) < timedelta(seconds=1)
    tells(target, publisher.session, "live")
    run(after(seconds=10))
    assert (alert().outcome, alert().cleared_why) == ("fixed", "It is pushed there again.")
    assert told() == ["alert.opened", "alert.cleared"]


@pytest.mark.parametrize(
    ("end", "outcome", "why"),
    [
        ("stop", "withdrawn", "The push was stopped, or tried anew."),
        ("off", "withdrawn", "The target was switched off."),
        ("remove", "withdrawn", "The target was removed."),
        ("drop", "dropped", "Stream dropped: connection reset. It was not put right"),
        ("clean", "ended", "Stream ended: encoder stopped. It was not put right"),
    ],
)
def test_push_alert_clears_with_outcome_when_push_target_or_stream_ends(
    publisher: OutboxWriter, target: PushTarget, end: str, outcome: str, why: str
) -> None:
    rule(kinds=["push_fails"])
    tells(target, publisher.session, "stopped", REFUSED)
    run()
    match end:
        case "stop":
            push_targets.stop(ACTOR, target)
            tells(target, publisher.session, "retrying", {"failure": "lost"})  # Late.
        case "off":
            push_targets.save(ACTOR, target, {"enabled": False})
        case "remove":
            push_targets.remove(ACTOR, target)
        case "drop":
            publisher.end("tcp_reset")
        case "clean":
            publisher.end("client_unpublish")
    run()
    assert alert().outcome == outcome
    assert alert().cleared_why.startswith(why)


def test_push_rule_covers_only_its_streams_and_pushes_already_failing(
    publisher: OutboxWriter, target: PushTarget
) -> None:
    tells(target, publisher.session, "stopped", REFUSED)
    other = Stream.objects.create(application=target.stream.application, name="other")
    rule(name="Other", kinds=["push_fails"]).streams.add(other)
    rule(name="Health", kinds=["health"])
    run()
    assert not Alert.objects.exists()
    rule(name="Mine", kinds=["push_fails"]).streams.add(target.stream)
    run()
    assert [each.rule.name for each in Alert.objects.all()] == ["Mine"]


def test_each_target_has_an_alert_of_its_own(publisher: OutboxWriter, target: PushTarget) -> None:
    rule(kinds=["push_fails"])
    second = PushTarget(stream=target.stream)
    push_targets.save(ACTOR, second, {"label": "Twitch", "url": "rtmp://b.example.org/app", "key": "k-22"})
    for each in (target, second):
        tells(each, publisher.session, "stopped", REFUSED)
    run()
    tells(second, publisher.session, "live")
    run()
    assert {each.title[:22]: each.outcome for each in Alert.objects.all()} == {
        "Not pushed to YouTube:": "",
        "Not pushed to Twitch: ": "fixed",
    }


def test_push_check_without_failures_needs_at_most_three_queries(
    publisher: OutboxWriter, target: PushTarget, django_assert_max_num_queries: Any
) -> None:
    rules = [rule(kinds=["push_fails"])]
    with django_assert_max_num_queries(3):
        kinds.KINDS["push_fails"].look(rules, timezone.now())
