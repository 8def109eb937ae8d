"""Alerts by e-mail, to a real receiver of SMTP: the words, refusals, and a server that is away for a while."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.mail import EmailMessage
from django.core.mail.backends.base import BaseEmailBackend
from django.utils import timezone

from dashboard import tasks
from dashboard.alerts import evaluation
from dashboard.models import AlertRule
from ingest.delivery import email, engine
from ingest.delivery.channel import Answer
from ingest.models import Delivery, Stream
from rtmpweb import env
from tests.dashboard.alerts.conftest import Told, live
from tests.dashboard.conftest import lacks
from tests.receivers import MailReceiver, mail_receiver, use_mail_server

pytestmark = pytest.mark.django_db


@pytest.fixture
def mailbox(settings: Any) -> Iterator[MailReceiver]:
    with mail_receiver() as made:
        use_mail_server(settings, made.port)
        yield made


@pytest.fixture
def publisher(stream: Stream) -> Told:
    AlertRule.objects.create(name="Night", level="warning", delay_s=0, emails="a@example.org b@example.org")
    return live(stream)


def run() -> None:
    now = timezone.now()
    tasks.handle_events(now)
    evaluation.notify(now)
    Delivery.objects.filter(state="waiting").update(next_at=now)
    engine.deliver("email")


def test_the_words(mailbox: MailReceiver, publisher: Told) -> None:
    publisher.opened()
    run()
    publisher.cleared()
    run()
    assert [message["To"] for message in mailbox.got] == ["a@example.org", "b@example.org"] * 2
    opened, cleared = mailbox.got[0], mailbox.got[2]
    assert opened["Subject"] == "live/cam-1: Nothing has arrived for 14 s (5 s at most) (Bad)"
    assert cleared["Subject"] == "Cleared: live/cam-1: Nothing received"
    link = f"http://127.0.0.1:8000/sessions/{publisher.session.pk}/"
    for part in opened.walk():
        if not part.is_multipart():
            text = part.get_content()
            assert link in text
            assert lacks(text, "at most 5 s", "Check that the encoder is running") == []
    assert [part.get_content_type() for part in opened.walk()][1:] == ["text/plain", "text/html"]
    assert "The issue is over." in cleared.get_body(("plain",)).get_content()  # type: ignore[union-attr]
    assert str(Delivery.objects.filter(address="a@example.org").last().pk) in opened["Message-ID"]  # type: ignore[union-attr]


def test_a_server_that_is_away_is_tried_again_and_nothing_comes_twice(settings: Any, publisher: Told) -> None:
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


@pytest.mark.both_forms
def test_each_is_claimed_as_it_is_sent_so_that_a_slow_server_gets_none_twice(
    mailbox: MailReceiver, publisher: Told, monkeypatch: pytest.MonkeyPatch
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


def test_an_address_that_is_refused_is_given_up_and_holds_up_no_other(mailbox: MailReceiver, publisher: Told) -> None:
    mailbox.refused = {"a@example.org"}
    publisher.opened()
    run()
    assert [message["To"] for message in mailbox.got] == ["b@example.org"]
    row = Delivery.objects.get(address="a@example.org")
    assert (row.state, row.status_code) == ("dead", 550)
    assert "no such user" in row.error


@pytest.mark.both_forms
def test_without_a_server_it_says_so(publisher: Told) -> None:
    publisher.opened()
    run()
    tried = Delivery.objects.get(attempts=1)
    assert tried.error == "No mail server is set: RTMPWEB_EMAIL_URL."


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("", ("", 0, "", "", False, False)),
        ("smtp://mail", ("mail", 25, "", "", False, False)),
        ("smtp+starttls://me:p%40ss@mail.example.org", ("mail.example.org", 587, "me", "p@ss", True, False)),
        ("smtps://me:pw@mail:4650", ("mail", 4650, "me", "pw", False, True)),
    ],
)
def test_the_setting_is_read(monkeypatch: pytest.MonkeyPatch, url: str, server: tuple[Any, ...]) -> None:
    monkeypatch.setenv("RTMPWEB_EMAIL_URL", url)
    assert env.mail_server(env.mail_url("RTMPWEB_EMAIL_URL")) == server


@pytest.mark.parametrize(
    "url", ["mail.example.org", "http://mail", "smtp://", "smtp://u:se#cret@mail", "smtp://m:99999"]
)
def test_a_setting_that_cannot_be_read_stops_the_start_unshown(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("RTMPWEB_EMAIL_URL", url)
    with pytest.raises(ImproperlyConfigured) as error:
        env.mail_url("RTMPWEB_EMAIL_URL")
    assert "cret" not in str(error.value)
