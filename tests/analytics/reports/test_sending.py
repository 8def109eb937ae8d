"""Reports by e-mail, through a real server: what arrives, and that it does once."""

import csv
import io
from datetime import date
from email.message import EmailMessage
from pathlib import Path

import pytest
from django.utils import timezone
from pypdf import PdfReader

from analytics import periods
from analytics.models import Report, ReportDelivery, ReportPlan
from analytics.reports import builder, pdf, subprocess_jobs
from analytics.scopes import Scope
from ingest.delivery import engine
from ingest.delivery.email import EmailChannel
from ingest.models import Application, Delivery, Stream
from rtmpweb.celery import app as celery
from tests.analytics.rollups import HOUR, HOUR_MS, MONDAY, make_live_hour, mark_done
from tests.receivers import MailReceiver

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_lake")]

State = ReportDelivery.State
TASKS = {
    "ingest.tasks.deliver": "default",
    "analytics.reports.tasks.due_reports": "default",
    "analytics.reports.tasks.make_due": "analytics",
}
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def report(lake: Path) -> Report:
    app = Application.objects.create(name="live")
    Stream.objects.create(application=app, name="studio <1>", target_kbps=6000)
    for number in range(4):
        make_live_hour("live/Арена-2", MONDAY + number * HOUR)
        make_live_hour("live/studio <1>", MONDAY + number * HOUR, below_ms=HOUR_MS // 4, bad_ms=HOUR_MS // 4)
    make_live_hour("live/=cmd", MONDAY)
    mark_done(MONDAY, 4)
    period = periods.containing(ReportPlan.Kind.WEEKLY, date(2026, 11, 2), periods.zone_of("Europe/Berlin"))
    return builder.make(period, Scope())


def parts(message: EmailMessage) -> dict[str, list[EmailMessage]]:
    found: dict[str, list[EmailMessage]] = {}
    for part in message.walk():
        assert isinstance(part, EmailMessage)
        found.setdefault(part.get_content_type(), []).append(part)
    return found


def send() -> int:
    """How many arrived."""
    before = Delivery.objects.filter(state=State.DONE).count()
    engine.deliver("email")
    return Delivery.objects.filter(state=State.DONE).count() - before


def test_report_email_has_the_text_html_chart_and_csv_of_the_report(report: Report, inbox: MailReceiver) -> None:
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
    assert [row["stream"] for row in rows] == ["live/studio <1>", "live/=cmd", "live/Арена-2"]
    assert rows[0]["reason"].replace("\xa0", " ") == "was below 70 % of its target for 60 min"
    delivery = report.deliveries.get()
    assert (delivery.progress, delivery.attempts, delivery.error) == ("sent", 1, "")
    assert delivery.sent_at is not None


@pytest.mark.both_forms
def test_report_is_sent_once_to_each_address(report: Report, inbox: MailReceiver) -> None:
    assert builder.send(report, ["a@example.org", "b@example.org", "a@example.org"]) == 2
    assert (send(), send()) == (2, 0)
    assert builder.send(report, ["a@example.org", "c@example.org"]) == 1
    assert send() == 1
    assert sorted(message["To"] for message in inbox.got) == ["a@example.org", "b@example.org", "c@example.org"]


def test_report_delivery_tasks_are_not_routed_to_the_analytics_queue() -> None:
    queues = {name: celery.amqp.router.route({}, name)["queue"].name for name in TASKS}
    assert queues == TASKS


@pytest.mark.both_forms
def test_delivery_begun_by_a_lost_worker_fails_and_is_not_sent_twice(report: Report, inbox: MailReceiver) -> None:
    builder.send(report, ["ops@example.org"])
    assert engine._claim(report.deliveries.get(), EmailChannel.claim_s)
    assert send() == 0
    assert report.deliveries.get().progress == "sending"  # It may be going on.
    report.deliveries.update(claimed_until=timezone.now())
    assert engine.receivers(timezone.now()) == [("email", None)]
    assert send() == 0
    row = report.deliveries.get()
    assert (row.progress, row.error) == ("failed", engine.LOST)
    assert inbox.got == []
    assert builder.send(report, ["ops@example.org"]) == 1
    assert send() == 1


def test_report_pdf_has_the_content_of_the_document(report: Report) -> None:
    reader = PdfReader(io.BytesIO(subprocess_jobs.pdf(report.document)))
    text = " ".join(" ".join(page.extract_text() for page in reader.pages).replace("\xa0", " ").split())
    for said in (
        "Weekly stream report",
        "2 to 8 November 2026",
        "live/Арена-2",
        "live/studio <1> was below 70 % of its target for 60 min.",
        "Use wired Ethernet",
        "Data 4 of 4 hours",
        "More figures",
        "Refused connections",
    ):
        assert said in text
    assert reader.metadata is not None
    assert reader.metadata.title == "Weekly stream report: 2 to 8 November 2026"
    assert sum(len(page.images) for page in reader.pages) == len(report.document["charts"]) == 1


def test_report_pdf_shows_east_asian_stream_names(report: Report) -> None:
    document = dict(report.document)
    document["findings"] = [{"level": "bad", "what": "live/スタジオ-演播室-방송 broke.", "advice": "", "stream": ""}]
    text = "".join(page.extract_text() for page in PdfReader(io.BytesIO(pdf.pdf(document))).pages)  # type: ignore[arg-type]
    for name in ("スタジオ", "演播室", "방송"):
        assert name in text
