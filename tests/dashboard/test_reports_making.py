"""Reports are made, planned and sent: by the page, the API and the admin, within what is allowed."""

import csv
import io
import re
from typing import Any

import pytest
from django.apps import apps
from django.test import Client
from django_celery_beat.models import PeriodicTask
from pypdf import PdfReader

from analytics.models import AnalyticsRun, Report, ReportDelivery, ReportPlan, RunLine
from analytics.reports import apart
from dashboard.throttle import MAILED
from ingest.models import AuditEntry, Stream
from tests.dashboard.conftest import api_token, client_of, make_stream, make_user
from tests.dashboard.documents import document, make_report, stream_row

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("still", "reports_made_here")]

JSON = "application/json"
BY_ANOTHER = apart.report


@pytest.fixture
def lake(tmp_path: Any, settings: Any) -> None:
    settings.LAKE_DIR = tmp_path / "lake"


def test_the_archive_and_one_of_it(client: Client) -> None:
    report = make_report()
    headers = api_token("viewer")
    answer = client.get("/api/v1/reports", headers=headers).json()
    assert answer["count"] == 1
    (item,) = answer["items"]
    assert (item["id"], item["kind"], item["hours_done"]) == (report.pk, report.kind, report.hours_done)
    assert "document" not in item
    assert client.get("/api/v1/reports?kind=monthly", headers=headers).json()["items"] == []
    whole = client.get(f"/api/v1/reports/{report.pk}", headers=headers).json()
    assert whole["document"] == report.document
    for path in ("999", "999.pdf", "999.csv"):
        assert client.get(f"/api/v1/reports/{path}", headers=headers).status_code == 404


@pytest.mark.parametrize(
    "query", ["from=2026-11-14&to=2026-11-01", "to=9999-12-31T23:59-12:00", "from=0001-01-01T00:00%2B14:00"]
)
def test_no_time_at_all_is_said(client: Client, query: str) -> None:
    answer = client.get(f"/api/v1/reports?{query}", headers=api_token("viewer"))
    assert answer.status_code == 422
    assert "later than" in answer.text or "the year" in answer.text


def test_its_files(client: Client) -> None:
    report = make_report()
    headers = api_token("viewer")
    sheet = client.get(f"/api/v1/reports/{report.pk}.csv", headers=headers)
    assert sheet["Content-Type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(sheet.content.decode())))
    assert [row["stream"] for row in rows] == [row["stream"] for row in report.document["streams"]]
    paper = client.get(f"/api/v1/reports/{report.pk}.pdf", headers=headers)
    assert paper["Content-Type"] == "application/pdf"
    assert paper["Content-Disposition"].endswith('.pdf"')
    text = "".join(page.extract_text() for page in PdfReader(io.BytesIO(paper.content)).pages)
    assert report.document["period"]["words"] in text


@pytest.mark.parametrize(
    ("wish", "since", "until"),
    [
        ({"kind": "weekly", "from": "2026-11-04T12:00"}, "2026-11-02T00:00:00Z", "2026-11-09T00:00:00Z"),
        (
            {"kind": "daily", "from": "2026-10-25T00:00", "time_zone": "Europe/Berlin"},
            "2026-10-24T22:00:00Z",
            "2026-10-25T23:00:00Z",
        ),
        ({"kind": "daily", "from": "2000-01-01T05:00Z"}, "2000-01-01T00:00:00Z", "2000-01-02T00:00:00Z"),
        (
            {"kind": "daily", "from": "2026-11-04T12:00Z", "to": "2026-11-04T15:00Z", "scope": "live"},
            "2026-11-04T12:00:00Z",
            "2026-11-04T15:00:00Z",
        ),
    ],
)
def test_one_is_made(client: Client, lake: None, stream: Stream, wish: dict[str, str], since: str, until: str) -> None:
    answer = client.post("/api/v1/reports", wish, content_type=JSON, headers=api_token("analyst"))
    assert answer.status_code == 201, answer.content
    made = answer.json()
    assert (made["since"], made["until"], made["scope"]) == (since, until, wish.get("scope", ""))
    assert Report.objects.get().pk == made["id"]
    assert made["document"]["lede"].startswith("Nothing was published")


def test_percentiles_have_one_decimal_in_the_csv_and_all_in_the_document(client: Client) -> None:
    report = make_report(document(streams=[stream_row("cam-1", p5=4620.123456, p50=5890.987654, p95=None)]))
    sheet = client.get(f"/api/v1/reports/{report.pk}.csv", headers=api_token("viewer")).content.decode()
    (row,) = csv.DictReader(io.StringIO(sheet))
    assert (row["p5"], row["p50"], row["p95"]) == ("4620.1", "5891.0", "")
    assert report.document["streams"][0]["p50"] == 5890.987654


@pytest.mark.parametrize(
    ("wish", "problem"),
    [
        ({"kind": "daily", "time_zone": "Mars/Olympus"}, "time zone"),
        ({"kind": "daily", "to": "2026-11-04T12:00Z"}, "give `from`"),
        ({"kind": "daily", "from": "2026-11-04T12:00Z", "to": "2026-11-04T12:00Z"}, "after it begins"),
        ({"kind": "daily", "from": "2020-11-04T12:00Z", "to": "2026-11-04T12:00Z"}, "within 400 days"),
        ({"kind": "daily", "from": "0001-01-01T00:00Z"}, "period"),
        ({"kind": "daily", "from": "9999-12-31T23:00Z"}, "period"),
        ({"kind": "daily", "scope": "none"}, "no application or stream none."),
        ({"kind": "daily", "scope": "live/none"}, "no application or stream live/none."),
    ],
)
def test_what_can_not_be_made_is_said(
    client: Client, lake: None, stream: Stream, wish: dict[str, str], problem: str
) -> None:
    answer = client.post("/api/v1/reports", wish, content_type=JSON, headers=api_token("analyst"))
    assert answer.status_code == 400
    assert problem in answer.json()["detail"]
    assert not Report.objects.exists()


def test_of_hours_that_are_not_computed_it_does_not_say_that_nothing_was_published(
    client: Client, lake: None, settings: Any
) -> None:
    recorded = settings.LAKE_DIR / "samples/v=1/dt=2026-11-04/hr=12/n1-1-1.parquet"
    recorded.parent.mkdir(parents=True)
    recorded.write_bytes(b"PAR1")
    wish = {"kind": "daily", "from": "2026-11-04"}
    document = client.post("/api/v1/reports", wish, content_type=JSON, headers=api_token("analyst")).json()["document"]
    assert document["lede"] == "Nothing has been computed yet of what was published in this day."
    (note,) = document["notes"]
    assert note.startswith("1 of 1 hours were not computed")


def test_while_another_is_made_it_is_503(client: Client, lake: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "report", BY_ANOTHER)
    monkeypatch.setattr(apart, "WAIT_S", 0.05)
    report = make_report()
    headers = api_token("analyst")
    with apart._one_at_a_time:
        refused = [
            client.get(f"/api/v1/reports/{report.pk}.pdf", headers=headers),
            client.post("/api/v1/reports", {"kind": "weekly"}, content_type=JSON, headers=headers),
        ]
    for answer in refused:
        assert (answer.status_code, answer.json()["detail"]) == (503, apart.BUSY)
    assert Report.objects.get() == report


ADD = "/admin/analytics/reportplan/add/"

PLAN = {
    "name": "Each Monday",
    "kind": "weekly",
    "time_zone": "Europe/Berlin",
    "send_at": "06:30",
    "recipients": "ops@example.org, lead@example.org",
    "app": "",
    "stream": "",
    "is_enabled": "on",
}


@pytest.fixture
def boss(db: None) -> Client:
    user = make_user("admin", name="boss")
    user.is_superuser = user.is_staff = True
    user.save()
    return client_of(user)


def refusal(boss: Client, **fields: Any) -> str:
    answer = boss.post(ADD, PLAN | fields)
    assert answer.status_code == 200
    assert not ReportPlan.objects.exists()
    return str(answer.content.decode())


def test_a_plan_is_made_with_its_entry_in_the_schedule_and_in_the_log(boss: Client, stream: Stream) -> None:
    assert "Europe/Berlin</option>" in boss.get(ADD).content.decode()
    assert boss.post(ADD, PLAN | {"stream": stream.pk}).status_code == 302
    plan = ReportPlan.objects.get()
    assert plan.addresses == ["ops@example.org", "lead@example.org"]
    (task,) = PeriodicTask.objects.filter(task="analytics.reports.tasks.make_due")
    assert task.crontab is not None
    assert (task.crontab.hour, task.crontab.minute, task.crontab.day_of_week) == ("6", "30", "1")
    assert str(task.crontab.timezone) == "Europe/Berlin"
    entry = AuditEntry.objects.get(action="report_plan.create")
    assert entry.actor == "boss"
    assert entry.stream == stream


def test_a_plan_s_change_and_deletion_reach_the_schedule(boss: Client) -> None:
    boss.post(ADD, PLAN)
    plan = ReportPlan.objects.get()
    boss.post(f"/admin/analytics/reportplan/{plan.pk}/change/", PLAN | {"kind": "daily", "send_at": "23:15"})
    (task,) = PeriodicTask.objects.filter(task="analytics.reports.tasks.make_due")
    assert task.crontab is not None
    assert (task.crontab.hour, task.crontab.minute, task.crontab.day_of_week) == ("23", "15", "*")
    entry = AuditEntry.objects.get(action="report_plan.change")
    assert entry.detail["changed"]["kind"] == ["weekly", "daily"]
    boss.post(f"/admin/analytics/reportplan/{plan.pk}/delete/", {"post": "yes"})
    assert not PeriodicTask.objects.filter(task="analytics.reports.tasks.make_due").exists()
    assert AuditEntry.objects.filter(action="report_plan.delete").exists()


def test_what_is_wrong_with_a_plan_is_explained(boss: Client, stream: Stream) -> None:
    make_stream("other", app="cams")
    assert "nobody is no e-mail address" in refusal(boss, recipients="ops@example.org\nnobody")
    assert "There is no application nowhere" in refusal(boss, app="nowhere")
    assert "is of another application" in refusal(boss, app="cams", stream=stream.pk)
    assert "Select a valid choice" in refusal(boss, time_zone="Mars/Olympus")
    assert "Enter a valid time" in refusal(boss, send_at="25:00")


def test_a_name_is_taken_once(boss: Client) -> None:
    ReportPlan.objects.create(name="Each Monday", kind="daily")
    answer = boss.post(ADD, PLAN)
    assert "Another plan has this name" in answer.content.decode()


def test_the_archive_and_the_log_are_to_read(boss: Client) -> None:
    report = make_report()
    delivery = ReportDelivery.objects.create(report=report, recipient="ops@example.org", error="451 later")
    run = AnalyticsRun.objects.create(trigger="page", state="done")
    line = RunLine.objects.create(run=run, text="Begins on host-1.")
    for model, row, words in (
        ("report", report, "ops@example.org"),
        ("reportdelivery", delivery, "451 later"),
        ("runline", line, "Begins on host-1."),
        ("analyticsrun", run, "Begins on host-1."),
    ):
        base = f"/admin/analytics/{model}"
        assert words in boss.get(f"{base}/{row.pk}/change/").content.decode()
        assert boss.get(f"{base}/").status_code == 200
        assert boss.post(f"{base}/{row.pk}/delete/", {"post": "yes"}).status_code == 403
        assert boss.get(f"{base}/add/").status_code == 403
    assert Report.objects.exists()


def test_the_admin_calls_several_of_each_by_their_plural(admin_client: Client) -> None:
    assert "Report deliveries" in admin_client.get("/admin/").content.decode()
    plurals = [str(model._meta.verbose_name_plural) for model in apps.get_models()]
    assert [name for name in plurals if re.search(r"[^aeiou]ys$", name)] == []


AT_ONCE = 50


def send(client: Client, report: Report, first: int, count: int) -> tuple[int, str]:
    recipients = "\n".join(f"a{number}@example.org" for number in range(first, first + count))
    answer = client.post(f"/reports/{report.pk}/send", {"recipients": recipients})
    return answer.status_code, answer.content.decode()


@pytest.mark.both_forms
def test_an_account_sends_to_so_many_addresses_an_hour() -> None:
    ana = client_of(make_user("analyst", name="ana"))
    report = make_report()
    for first in range(0, MAILED.most - 1, AT_ONCE):
        assert send(ana, report, first, min(AT_ONCE, MAILED.most - 1 - first))[0] == 302
    entries = AuditEntry.objects.count()
    assert send(ana, report, 0, AT_ONCE)[0] == 302, "whoever has got it counts no second time"
    status, page = send(ana, make_report(), 0, 2)
    assert status == 429
    assert "An account may send reports to 200 addresses an hour" in page
    assert "a1@example.org</textarea>" in page, "what was typed is still there"
    assert ReportDelivery.objects.count() == MAILED.most - 1
    assert AuditEntry.objects.count() == entries + 1
    another = make_report()
    assert send(ana, another, 0, 1)[0] == 302, "what was refused is not counted"
    assert send(ana, another, 1, 1)[0] == 429
    ben = client_of(make_user("analyst", name="ben"))
    assert send(ben, another, 1, AT_ONCE)[0] == 302
