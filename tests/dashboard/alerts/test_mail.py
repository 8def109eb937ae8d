"""Alerts by e-mail, to a real receiver of SMTP: the words, refusals, and a server that is away for a while."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from email.message import EmailMessage as Received
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.mail import EmailMessage
from django.core.mail.backends.base import BaseEmailBackend
from django.db.models import F
from django.utils import timezone

from dashboard import tasks
from dashboard.alerts import evaluation
from dashboard.models import Alert, AlertRule
from ingest.contracts.figures import CHECK_NAMES
from ingest.delivery import email, engine
from ingest.delivery.channel import Answer
from ingest.delivery.kinds import kind_of
from ingest.models import Delivery, Stream
from rtmpweb import env
from tests.dashboard.alerts.conftest import OutboxWriter, live
from tests.dashboard.conftest import lacks
from tests.receivers import MailReceiver, mail_receiver, use_mail_server

pytestmark = pytest.mark.django_db


@pytest.fixture
def mailbox(settings: Any) -> Iterator[MailReceiver]:
    with mail_receiver() as made:
        use_mail_server(settings, made.port)
        yield made


@pytest.fixture
def publisher(stream: Stream) -> OutboxWriter:
    AlertRule.objects.create(
        name="Night", kinds=["health"], level="warning", delay_s=0, emails="a@example.org b@example.org"
    )
    return live(stream)


def run() -> None:
    now = timezone.now()
    tasks.handle_events(now)
    evaluation.notify(now)
    Delivery.objects.filter(state="waiting").update(next_at=now)
    engine.deliver("email")


def pass_by(**span: float) -> None:
    """As if so much time had passed since what there is."""
    ago = timedelta(**span)
    Alert.objects.update(opened_at=F("opened_at") - ago, told_at=F("told_at") - ago)
    Alert.objects.exclude(cleared_at=None).update(cleared_at=F("cleared_at") - ago)
    Delivery.objects.update(created_at=F("created_at") - ago)


def plain(message: Received) -> str:
    part = message.get_body(("plain",))
    assert part is not None
    return str(part.get_content())


def test_alert_mail_states_subject_times_limit_and_advice(mailbox: MailReceiver, publisher: OutboxWriter) -> None:
    publisher.opened()
    run()
    publisher.cleared()
    run()
    assert [message["To"] for message in mailbox.got] == ["a@example.org", "b@example.org"] * 2
    opened, cleared = mailbox.got[0], mailbox.got[2]
    alert = Alert.objects.get()
    assert alert.cleared_at is not None
    began, over = f"{alert.opened_at:%H:%M:%S} UTC, {alert.opened_at:%-d %b}", f"{alert.cleared_at:%H:%M:%S}"
    since = f"{alert.opened_at:%H:%M} UTC"
    assert opened["Subject"] == f"Bad: live/cam-1: Nothing has arrived for 14 s (5 s at most), since {since}"
    assert cleared["Subject"].startswith(f"Resolved: live/cam-1: {CHECK_NAMES['starving']}, after ")
    assert lacks(plain(opened), f"Happened {began}; still open at", " UTC, ", ", after ") == []
    assert lacks(plain(cleared), f"Happened {began}; resolved {over}, after") == []
    for each in mailbox.got:
        assert not re.search(r"\d{4}-\d\d-\d\dT|late|tcp_reset|starving", plain(each))
    link = f"http://127.0.0.1:8000/sessions/{publisher.session.pk}/"
    for part in opened.walk():
        if not part.is_multipart():
            text = part.get_content()
            assert link in text
            assert lacks(text, "at most 5 s", "Check that the encoder is running") == []
    assert [part.get_content_type() for part in opened.walk()][1:] == ["text/plain", "text/html"]
    assert "Back within limits." in plain(cleared)
    assert str(Delivery.objects.filter(address="a@example.org").last().pk) in opened["Message-ID"]  # type: ignore[union-attr]


def test_a_server_that_is_away_is_tried_again_and_nothing_comes_twice(settings: Any, publisher: OutboxWriter) -> None:
    with mail_receiver() as first:
        port = first.port
    use_mail_server(settings, port)
    publisher.opened()
    run()
    tried, left = Delivery.objects.order_by("number")
    assert (tried.state, tried.attempts, left.state, left.attempts) == ("waiting", 1, "waiting", 0)
    assert "can't be reached" in tried.error
    assert left.next_at > timezone.now()
    with mail_receiver(port) as back:
        run()
        run()
        assert sorted(str(message["To"]) for message in back.got) == ["a@example.org", "b@example.org"]


@pytest.fixture
def away(settings: Any) -> int:
    """The port of a mail server that is away."""
    with mail_receiver() as gone:
        use_mail_server(settings, gone.port)
    return gone.port


def states() -> list[tuple[str, str]]:
    return list(Delivery.objects.order_by("number").values_list("kind", "state"))


@pytest.mark.both_forms
def test_alert_cleared_while_mail_server_was_down_is_not_sent(away: int, publisher: OutboxWriter) -> None:
    publisher.opened()
    run()
    publisher.cleared()
    run()
    with mail_receiver(away) as back:
        run()
        run()
    assert back.got == []
    assert states() == [("alert.opened", "dropped")] * 2 + [("alert.cleared", "dropped")] * 2
    opened, cleared = (Delivery.objects.filter(kind=kind).first() for kind in ("alert.opened", "alert.cleared"))
    assert opened is not None
    assert cleared is not None
    assert re.fullmatch(r"It cleared at \d\d:\d\d:\d\d UTC, \d+ \w+, before it could be sent\.", opened.error)
    assert cleared.error == "Nobody had been notified of it before it cleared."


@pytest.mark.both_forms
def test_open_alert_is_mailed_once_with_its_time_after_mail_server_outage(away: int, publisher: OutboxWriter) -> None:
    AlertRule.objects.update(repeat_min=1)
    publisher.opened()
    run()
    for _ in range(3):
        pass_by(minutes=5)
        run()
    assert [kind for kind, _ in states()] == ["alert.opened"] * 2, "what waits says it as well"
    with mail_receiver(away) as back:
        run()
        assert [message["To"] for message in back.got] == ["a@example.org", "b@example.org"]
        began = Alert.objects.get().opened_at
        words = (
            f"Happened {began:%H:%M:%S} UTC, {began:%-d %b}; still open at",
            "after 15 min",
            "This message is 15 min",
        )
        assert lacks(plain(back.got[0]), *words) == []
        assert f"since {began:%H:%M} UTC" in back.got[0]["Subject"]
        pass_by(minutes=2)
        run()
        assert [message["Subject"][:10] for message in back.got[2:]] == ["Still bad:"] * 2


def test_resolved_mail_of_a_notified_alert_is_sent_even_if_late(
    mailbox: MailReceiver, settings: Any, publisher: OutboxWriter
) -> None:
    publisher.opened()
    run()
    use_mail_server(settings, 9)
    publisher.cleared()
    run()
    pass_by(minutes=14)
    use_mail_server(settings, mailbox.port)
    run()
    last = mailbox.got[-1]
    assert (len(mailbox.got), last["Subject"][:9]) == (4, "Resolved:")
    assert lacks(plain(last), "; resolved ", "This message is 14 min") == []


@pytest.mark.both_forms
def test_unreachable_mail_server_is_retried_often_and_given_up_after_a_day(away: int, publisher: OutboxWriter) -> None:
    publisher.opened()
    for _ in range(len(engine.DELAYS_S) + 5):
        run()
        Delivery.objects.filter(attempts=0).delete()
        row = Delivery.objects.get()
        assert row.state == "waiting"
        assert (row.next_at - timezone.now()).total_seconds() < engine.BACK_OFF_S * 1.3
    pass_by(hours=25)
    run()
    assert Delivery.objects.get().state == "dead"


@pytest.mark.both_forms
def test_mail_of_a_drop_with_open_issue_says_not_fixed(away: int, publisher: OutboxWriter, stream: Stream) -> None:
    """And is told, though the mail that it had opened can't be any more."""
    publisher.opened()
    run()
    publisher.cleared(by="session.ended")
    publisher.end("tcp_reset")
    run()
    with mail_receiver(away) as back:
        run()
        run()
    first = back.got[0]
    assert len(back.got) == 2
    assert first["Subject"] == (
        "Bad: live/cam-1: Stream dropped: connection reset, not fixed: " + CHECK_NAMES["starving"]
    )
    words = ("Stream dropped: connection reset. The issue was not fixed: Nothing has arrived", ", not fixed, after")
    assert lacks(plain(first), *words, "Still off air at ", "Check that the encoder is running") == []
    assert "Cleared" not in f"{first['Subject']}{plain(first)}"
    live(stream).publish()
    assert engine.requeue(Delivery.objects.filter(address="b@example.org", kind="alert.cleared")) == 1
    with mail_receiver(away) as back:
        run()
    assert "Live again since " in plain(back.got[0])


@pytest.mark.parametrize(("zone", "name"), [("Asia/Tokyo", "JST"), ("Mars/Base", "UTC")])
def test_mail_times_are_in_the_rules_time_zone(
    mailbox: MailReceiver, publisher: OutboxWriter, zone: str, name: str
) -> None:
    AlertRule.objects.update(time_zone=zone)
    publisher.opened()
    run()
    began = Alert.objects.get().opened_at.astimezone(ZoneInfo(zone if name == "JST" else "UTC"))
    assert f"Happened {began:%H:%M:%S} {name}, {began:%-d %b};" in plain(mailbox.got[0])
    assert str(mailbox.got[0]["Subject"]).endswith(f", since {began:%H:%M} {name}")


def test_mail_of_an_intended_end_is_not_marked_bad(mailbox: MailReceiver, publisher: OutboxWriter) -> None:
    publisher.opened()
    run()
    publisher.end("client_unpublish")
    run()
    last = mailbox.got[-1]
    assert last["Subject"] == f"live/cam-1: Stream ended: encoder stopped, not fixed: {CHECK_NAMES['starving']}"
    assert "Bad:" not in last["Subject"]


@pytest.mark.both_forms
def test_manually_requeued_mail_is_sent_though_its_alert_has_cleared(away: int, publisher: OutboxWriter) -> None:
    publisher.opened()
    run()
    publisher.cleared()
    run()
    asked = Delivery.objects.filter(kind="alert.opened", address="a@example.org")
    assert engine.requeue(asked) == 1
    with mail_receiver(away) as back:
        run()
    assert [message["Subject"][:9] for message in back.got][:1] == ["Resolved:"]
    assert asked.get().state == "done"


def test_mail_of_a_deleted_rule_says_current_state_is_unknown(away: int, publisher: OutboxWriter) -> None:
    publisher.opened()
    run()
    AlertRule.objects.all().delete()
    with mail_receiver(away) as back:
        run()
    assert "Its rule was deleted since: how it stands now is not known." in plain(back.got[0])


@pytest.mark.stores
def test_mails_are_claimed_one_at_a_time_as_each_is_sent(
    mailbox: MailReceiver, publisher: OutboxWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server may take ten steps of `EMAIL_TIMEOUT` for each: other workers send what waits meanwhile."""
    real = email.send_mail
    claims: list[list[float]] = []

    def send(connection: BaseEmailBackend, message: EmailMessage) -> Answer:
        now = timezone.now()
        held = Delivery.objects.filter(claim__isnull=False, state="waiting")
        claims.append([(each.claimed_until - now).total_seconds() for each in held if each.claimed_until])
        return real(connection, message)

    monkeypatch.setattr(email, "send_mail", send)
    for check in ("starving", "gop_long"):
        publisher.opened(check)
    run()
    assert len(mailbox.got) == len(claims) == 4
    assert all(len(held) == 1 and held[0] > 12 * settings.EMAIL_TIMEOUT for held in claims)


def test_an_address_that_is_refused_is_given_up_and_holds_up_no_other(
    mailbox: MailReceiver, publisher: OutboxWriter
) -> None:
    mailbox.refused = {"a@example.org"}
    publisher.opened()
    run()
    assert [message["To"] for message in mailbox.got] == ["b@example.org"]
    row = Delivery.objects.get(address="a@example.org")
    assert (row.state, row.status_code) == ("dead", 550)
    assert "no such user" in row.error


@pytest.mark.both_forms
def test_delivery_without_mail_server_names_the_missing_setting(publisher: OutboxWriter) -> None:
    publisher.opened()
    run()
    tried = Delivery.objects.get(attempts=1)
    assert tried.error == "No mail server is set (RTMPWEB_EMAIL_URL)."


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("", ("", 0, "", "", False, False)),
        ("smtp://mail", ("mail", 25, "", "", False, False)),
        ("smtp+starttls://me:p%40ss@mail.example.org", ("mail.example.org", 587, "me", "p@ss", True, False)),
        ("smtps://me:pw@mail:4650", ("mail", 4650, "me", "pw", False, True)),
    ],
)
def test_mail_url_setting_is_parsed(monkeypatch: pytest.MonkeyPatch, url: str, server: tuple[Any, ...]) -> None:
    monkeypatch.setenv("RTMPWEB_EMAIL_URL", url)
    assert env.mail_server(env.mail_url("RTMPWEB_EMAIL_URL")) == server


@pytest.mark.parametrize(
    "url", ["mail.example.org", "http://mail", "smtp://", "smtp://u:se#cret@mail", "smtp://m:99999"]
)
def test_invalid_mail_url_raises_without_showing_its_secret(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("RTMPWEB_EMAIL_URL", url)
    with pytest.raises(ImproperlyConfigured) as error:
        env.mail_url("RTMPWEB_EMAIL_URL")
    assert "cret" not in str(error.value)


def test_error_in_superseded_check_of_a_mail_does_not_block_sending(
    monkeypatch: pytest.MonkeyPatch, mailbox: MailReceiver, publisher: OutboxWriter
) -> None:
    publisher.opened()
    run()
    sent = len(mailbox.got)
    known = kind_of

    def broken(row: Delivery) -> str:
        raise KeyError(row.kind)

    monkeypatch.setattr(engine, "kind_of", lambda row: replace(known(row), superseded=broken))
    publisher.cleared()
    run()
    assert len(mailbox.got) == 2 * sent
