"""Reports by e-mail, through a real server: what arrives, and that it does once."""

import csv
import io
import threading
from collections.abc import Iterator
from datetime import date, timedelta
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from django.core import mail as django_mail
from django.db import connection
from django.utils import timezone

from analytics import periods
from analytics.models import Report, ReportDelivery, ReportPlan
from analytics.reports import builder, charts, delivery, pdf, subprocess_jobs
from analytics.reports.document import Chart
from analytics.scopes import Scope
from ingest.models import Application, Stream
from ingest.services import outgoing
from rtmpweb.celery import app as celery
from tests.analytics.reports.rows import H_MS, HOUR, MONDAY, done, hour
from tests.receivers import MailReceiver, mail_receiver

pytestmark = pytest.mark.django_db

State = ReportDelivery.State
TASKS = {"send_waiting": "default", "due_reports": "default", "make_due": "analytics"}
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def inbox(settings: Any) -> Iterator[MailReceiver]:
    with mail_receiver() as receiver:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", receiver.port
        settings.EMAIL_HOST_USER = settings.EMAIL_HOST_PASSWORD = ""
        settings.EMAIL_USE_TLS = settings.EMAIL_USE_SSL = False
        settings.EMAIL_URL = f"smtp://127.0.0.1:{receiver.port}"
        yield receiver


@pytest.fixture
def report(lake: Path) -> Report:
    app = Application.objects.create(name="live")
    Stream.objects.create(application=app, name="studio <1>", target_kbps=6000)
    for number in range(4):
        hour("live/Арена-2", MONDAY + number * HOUR)
        hour("live/studio <1>", MONDAY + number * HOUR, below_ms=H_MS // 4, bad_ms=H_MS // 4)
    hour("live/=cmd", MONDAY)
    done(MONDAY, 4)
    period = periods.containing(ReportPlan.Kind.WEEKLY, date(2026, 11, 2), periods.zone_of("Europe/Berlin"))
    return builder.make(period, Scope())


def parts(message: EmailMessage) -> dict[str, list[EmailMessage]]:
    found: dict[str, list[EmailMessage]] = {}
    for part in message.walk():
        assert isinstance(part, EmailMessage)
        found.setdefault(part.get_content_type(), []).append(part)
    return found


def send() -> int:
    return delivery.send_due(timezone.now() + timedelta(seconds=1))


def test_what_arrives(report: Report, inbox: MailReceiver) -> None:
    assert builder.send(report, ["ops@example.org"]) == 1
    assert send() == 1
    (message,) = inbox.got
    assert message["To"] == "ops@example.org"
    assert message["Subject"] == "Weekly stream report: 2 to 8 November 2026, 1 bad"
    found = parts(message)
    (plain,), (html,), (sheet,) = found["text/plain"], found["text/html"], found["text/csv"]
    text, page = plain.get_content(), html.get_content()
    for said in ("live/studio <1>", "live/Арена-2", "4 of 4 hours", "Europe/Berlin", "2 Nov 2026, 00:00"):
        assert said in text
        assert said.replace("<1>", "&lt;1&gt;") in page
    assert "**" not in text + page
    assert "&lt;b&gt;" not in page
    assert f"/reports/{report.pk}/" in text
    (picture,) = found["image/png"]
    cid = str(picture["Content-ID"]).strip("<>")
    assert f'src="cid:{cid}"' in page
    assert page.count("<img") == 1
    assert picture.get_content().startswith(PNG)
    assert picture.get_content_disposition() == "inline"
    assert page.count("src=") == page.count("cid:") == 1  # Nothing is loaded from elsewhere.
    rows = list(csv.DictReader(io.StringIO(sheet.get_content())))
    assert sheet.get_filename() == "weekly-2026-11-02.csv"
    assert [row["stream"] for row in rows] == ["live/studio <1>", "live/Арена-2", "live/=cmd"]
    assert rows[0]["reason"].replace("\xa0", " ") == "was below 70 % of its target for 60 min"
    delivery = report.deliveries.get()
    assert (delivery.state, delivery.attempts, delivery.error) == (State.SENT, 1, "")
    assert delivery.sent_at is not None


@pytest.mark.both_forms
def test_it_is_sent_once_to_each(report: Report, inbox: MailReceiver) -> None:
    assert builder.send(report, ["a@example.org", "b@example.org", "a@example.org"]) == 2
    assert (send(), send()) == (2, 0)
    assert builder.send(report, ["a@example.org", "c@example.org"]) == 1
    assert send() == 1
    assert sorted(message["To"] for message in inbox.got) == ["a@example.org", "b@example.org", "c@example.org"]


@pytest.mark.both_forms
@pytest.mark.django_db(transaction=True)
def test_workers_at_the_same_time_send_it_once(report: Report, inbox: MailReceiver) -> None:
    builder.send(report, [f"{number}@example.org" for number in range(4)])
    together = threading.Barrier(3)

    def work() -> None:
        together.wait()
        try:
            send()
        finally:
            connection.close()

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    while report.deliveries.filter(state=State.WAITING, attempts=0).exists():
        send()  # A worker that found the database locked has left it to the next.
    recipients = [str(message["To"]) for message in inbox.got]
    assert sorted(recipients) == [f"{number}@example.org" for number in range(4)]


def test_a_server_that_is_away_is_tried_again_and_given_up(report: Report, settings: Any, inbox: MailReceiver) -> None:
    builder.send(report, ["ops@example.org"])
    settings.EMAIL_PORT = 9  # Nobody is there.
    assert send() == 0
    row = report.deliveries.get()
    assert (row.state, row.attempts) == (State.WAITING, 1)
    assert row.error.startswith("The mail server can't be reached")
    assert row.next_at > timezone.now() + timedelta(seconds=30)
    assert send() == 0
    assert report.deliveries.get().attempts == 1  # It is not its time.
    for _ in delivery.DELAYS_S:
        report.deliveries.update(next_at=timezone.now())
        send()
    row.refresh_from_db()
    assert (row.state, row.attempts) == (State.FAILED, 1 + len(delivery.DELAYS_S))
    settings.EMAIL_PORT = inbox.port
    assert builder.send(report, ["ops@example.org"]) == 1  # Asked for once more by a person.
    assert send() == 1
    assert len(inbox.got) == 1


def test_a_server_that_is_away_is_asked_once_in_a_go(report: Report, settings: Any, inbox: MailReceiver) -> None:
    builder.send(report, [f"{number}@example.org" for number in range(3)])
    settings.EMAIL_PORT = 9
    assert send() == 0
    assert sorted(report.deliveries.values_list("attempts", flat=True)) == [0, 0, 1]
    settings.EMAIL_PORT = inbox.port
    assert send() == 2  # The first has its own time.


def test_a_report_s_pictures_are_drawn_once_for_all(
    report: Report, inbox: MailReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Chart] = []
    png = charts.png

    def draw(chart: Chart) -> bytes:
        drawn.append(chart)
        return png(chart)

    monkeypatch.setattr(charts, "png", draw)
    builder.send(report, [f"{number}@example.org" for number in range(3)])
    assert send() == 3
    assert len(drawn) == len(report.document["charts"]) == 1


def test_who_asks_for_one_to_be_sent_does_not_wait_for_spark() -> None:
    queues = {name: celery.amqp.router.route({}, f"analytics.reports.tasks.{name}")["queue"].name for name in TASKS}
    assert queues == TASKS


def test_a_refused_address_is_given_up_at_once(report: Report, inbox: MailReceiver) -> None:
    inbox.refused.add("gone@example.org")
    builder.send(report, ["gone@example.org", "ops@example.org"])
    assert send() == 1
    gone = report.deliveries.get(recipient="gone@example.org")
    assert gone.state == State.FAILED
    assert "refuses the address" in gone.error


@pytest.mark.both_forms
def test_one_that_a_lost_worker_had_begun_is_not_sent_twice(report: Report, inbox: MailReceiver) -> None:
    builder.send(report, ["ops@example.org"])
    report.deliveries.update(state=State.SENDING, attempts=1, next_at=timezone.now() - timedelta(minutes=4))
    assert send() == 0
    assert report.deliveries.get().state == State.SENDING  # It may be going on.
    report.deliveries.update(next_at=timezone.now() - timedelta(minutes=6))
    assert send() == 0
    row = report.deliveries.get()
    assert (row.state, row.error) == (State.FAILED, delivery.LOST)
    assert inbox.got == []


def test_without_a_mail_server_the_delivery_says_so(report: Report, settings: Any) -> None:
    settings.EMAIL_URL = ""
    builder.send(report, ["ops@example.org"])
    assert send() == 0
    row = report.deliveries.get()
    assert (row.state, row.error) == (State.WAITING, outgoing.NO_MAIL_SERVER)
    assert django_mail.outbox == []


def test_the_same_message_has_the_same_id(report: Report) -> None:
    said = delivery.mail_content(report)
    first, again = (delivery.mail_message(said, "a@example.org", message_id="report-1-1").message() for _ in range(2))
    assert first["Message-ID"] == again["Message-ID"] == "<report-1-1@localhost>"


def test_the_pdf_says_the_same(report: Report) -> None:
    from pypdf import PdfReader

    made = subprocess_jobs.pdf(report.document)
    reader = PdfReader(io.BytesIO(made))
    text = " ".join(" ".join(page.extract_text() for page in reader.pages).replace("\xa0", " ").split())
    for said in (
        "Weekly stream report",
        "2 to 8 November 2026",
        "live/Арена-2",
        "live/studio <1> was below 70 % of its target for 60 min.",
        "Give it a wired uplink",
        "Data 4 of 4 hours",
        "What else was counted",
        "Publish success",
    ):
        assert said in text
    assert reader.metadata is not None
    assert reader.metadata.title == "Weekly stream report: 2 to 8 November 2026"
    assert sum(len(page.images) for page in reader.pages) == len(report.document["charts"]) == 1


def test_a_pdf_shows_names_of_the_east(report: Report) -> None:
    from pypdf import PdfReader

    document = dict(report.document)
    document["findings"] = [{"level": "bad", "what": "live/スタジオ-演播室-방송 broke.", "advice": "", "stream": ""}]
    text = "".join(page.extract_text() for page in PdfReader(io.BytesIO(pdf.pdf(document))).pages)  # type: ignore[arg-type]
    for name in ("スタジオ", "演播室", "방송"):
        assert name in text
