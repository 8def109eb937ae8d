"""/api/v1/reports: the archive, files, and making one."""

import csv
import io
from typing import Any

import pytest
from django.test import Client
from pypdf import PdfReader

from analytics.models import Report
from analytics.reports import subprocess_jobs
from ingest.models import Stream
from tests.dashboard.conftest import api_token
from tests.dashboard.documents import document, make_report, stream_row

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("reports_made_here")]

JSON = "application/json"
BY_ANOTHER = subprocess_jobs.report


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
    monkeypatch.setattr(subprocess_jobs, "report", BY_ANOTHER)
    monkeypatch.setattr(subprocess_jobs, "WAIT_S", 0.05)
    report = make_report()
    headers = api_token("analyst")
    with subprocess_jobs._one_at_a_time:
        refused = [
            client.get(f"/api/v1/reports/{report.pk}.pdf", headers=headers),
            client.post("/api/v1/reports", {"kind": "weekly"}, content_type=JSON, headers=headers),
        ]
    for answer in refused:
        assert (answer.status_code, answer.json()["detail"]) == (503, subprocess_jobs.BUSY)
    assert Report.objects.get() == report
